"""A module that cannot be imported, as after an update of something it needs."""

import a_package_that_nobody_has  # noqa: F401
