"""The words for how many tables a drill had checked. Pure."""


def checked(number: int, unchecked: int) -> str:
    """How many tables a drill had the server check, and how many that would not."""
    return f"{number} table{'s' * (number != 1)} checked{not_checked(unchecked)}"


def not_checked(count: int) -> str:
    """Say behind that how many the server would not check; "" where it checked all."""
    return f", {count} NOT CHECKED (to be upgraded first)" if count else ""
