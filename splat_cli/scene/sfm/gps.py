"""Locations of photographs from the GPS data in their EXIF, in metres."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL.ExifTags import GPS, IFD

from splat_cli.image_files import open_image

_SEMI_MAJOR, _ECCENTRICITY2 = 6_378_137.0, 6.694379990141e-3  # of the ellipsoid of WGS 84
_BELOW_SEA = (1, b"\x01")


def gps_locations(images: Path, names: Sequence[str]) -> dict[str, tuple[float, float, float]]:
    """Name -> (east, north, up) in metres from the mean location, of the photographs with GPS data.

    Without altitudes, all are at the same height.
    """
    places = {name: place for name in names if (place := _place(images / name)) is not None}
    if not places:
        return {}
    values = np.array(list(places.values()))
    known = np.isfinite(values[:, 2])
    values[~known, 2] = np.median(values[known, 2]) if known.any() else 0.0
    local = _east_north_up(values)
    return {name: (float(e), float(n), float(u)) for name, (e, n, u) in zip(places, local, strict=True)}


def _place(path: Path) -> tuple[float, float, float] | None:
    """(latitude, longitude) in degrees and altitude in metres, NaN if missing; None without GPS."""
    try:
        with open_image(path) as image:
            tags = image.getexif().get_ifd(IFD.GPSInfo)
        latitude = _degrees(tags[GPS.GPSLatitude], tags.get(GPS.GPSLatitudeRef), "S")
        longitude = _degrees(tags[GPS.GPSLongitude], tags.get(GPS.GPSLongitudeRef), "W")
        altitude = float(tags.get(GPS.GPSAltitude, math.nan))
        if tags.get(GPS.GPSAltitudeRef) in _BELOW_SEA:
            altitude = -altitude
    except Exception:  # no GPS data, or damaged: Pillow's parser raises exceptions of any type
        return None
    is_somewhere = abs(latitude) <= 90 and abs(longitude) <= 180 and (latitude, longitude) != (0, 0)
    return (latitude, longitude, altitude if abs(altitude) < 1e5 else math.nan) if is_somewhere else None


def _degrees(parts: Sequence[float], reference: object, negative: str) -> float:
    """Decimal degrees from degrees, minutes and seconds; negative if `reference` is `negative`."""
    degrees, minutes, seconds = (float(part) for part in parts)
    value = degrees + minutes / 60 + seconds / 3600
    return -value if str(reference).strip("\0 ").upper() == negative else value


def _east_north_up(places: np.ndarray) -> np.ndarray:
    """East, north, up [N, 3] in metres from the mean of latitudes, longitudes and altitudes [N, 3]."""
    middle = np.median(places, axis=0)
    latitude, longitude = np.radians(middle[:2])
    (sin_a, cos_a), (sin_o, cos_o) = ((math.sin(angle), math.cos(angle)) for angle in (latitude, longitude))
    east, up = (-sin_o, cos_o, 0.0), (cos_a * cos_o, cos_a * sin_o, sin_a)
    axes = np.array([east, np.cross(up, east), up])
    local = (_geocentric(places) - _geocentric(middle[None])) @ axes.T
    return local - local.mean(axis=0)


def _geocentric(places: np.ndarray) -> np.ndarray:
    """Geocentric coordinates (ECEF, WGS 84) [N, 3] in metres of latitudes, longitudes and altitudes [N, 3]."""
    latitude, longitude, altitude = np.radians(places[:, 0]), np.radians(places[:, 1]), places[:, 2]
    radius = _SEMI_MAJOR / np.sqrt(1 - _ECCENTRICITY2 * np.sin(latitude) ** 2)
    across = (radius + altitude) * np.cos(latitude)
    z = (radius * (1 - _ECCENTRICITY2) + altitude) * np.sin(latitude)
    return np.stack([across * np.cos(longitude), across * np.sin(longitude), z], axis=1)
