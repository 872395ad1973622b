"""The site: cards and boards become pages. Imports no torch."""

from specatlas.publish.checks import Finding, check_site
from specatlas.publish.errors import SiteError
from specatlas.publish.site import build_site

__all__ = ["Finding", "SiteError", "build_site", "check_site"]
