"""What the project needs to build and check itself. None of it is part of the installed package."""
