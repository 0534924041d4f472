"""`python -m oneclock`, which is also how `accelerate launch -m oneclock` starts it."""

from oneclock.cli import main

if __name__ == "__main__":
    main()
