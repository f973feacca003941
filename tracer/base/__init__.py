"""What every other room stands on: errors, JSON, fields, settings, the terminal. It imports none of them.

Begin with `fields.FieldError`.
"""
