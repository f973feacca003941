"""The tools of every scripted agent: one answers, one fails."""


def get_weather(city: str, days: int) -> str:
    """Return the weather of a city.

    Args:
        city: The city.
        days: How many days ahead.
    """
    return f"21 degrees in {city}, for {days} days"


def cancel_order(order_id: str) -> str:
    """Cancel an order.

    Args:
        order_id: The order.
    """
    raise ValueError(f"no such order: {order_id}")
