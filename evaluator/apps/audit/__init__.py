"""Mutation testing of evals: would a golden dataset and its gates notice if the agent broke?"""
