"""What can go wrong while the site is built."""

from specatlas.errors import SpecAtlasError


class SiteError(SpecAtlasError):
    """The site cannot be built, or a built site fails its checks."""
