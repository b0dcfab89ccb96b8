"""EXIF data as cameras and phones write them."""

import math

from PIL import Image
from PIL.ExifTags import GPS, IFD, Base

METRES = 30.0  # a unit of the sample scene
LATITUDE, LONGITUDE, ALTITUDE = 48.1, 11.5, 520.0


def camera_exif(model, lens="wide", focal_length=4.2):
    """EXIF data of a photograph that a camera took."""
    exif = Image.Exif()
    exif[Base.Make], exif[Base.Model] = "Maker", model
    exif.get_ifd(IFD.Exif).update({Base.LensModel: lens, Base.FocalLength: focal_length})
    return exif


def gps_exif(east, north, up):
    """EXIF data of a photograph at a distance in metres from a place in Munich."""
    sine = math.sin(math.radians(LATITUDE)) ** 2
    meridian = 6_378_137 * (1 - 6.69437999e-3) / (1 - 6.69437999e-3 * sine) ** 1.5
    parallel = 6_378_137 / (1 - 6.69437999e-3 * sine) ** 0.5 * math.cos(math.radians(LATITUDE))
    exif = camera_exif("Phone 7")
    exif.get_ifd(IFD.GPSInfo).update(
        {
            GPS.GPSLatitudeRef: "N",
            GPS.GPSLatitude: _sexagesimal(LATITUDE + math.degrees(north / meridian)),
            GPS.GPSLongitudeRef: "E",
            GPS.GPSLongitude: _sexagesimal(LONGITUDE + math.degrees(east / parallel)),
            GPS.GPSAltitudeRef: b"\0",
            GPS.GPSAltitude: ALTITUDE + up,
        }
    )
    return exif


def _sexagesimal(angle):
    degrees, rest = divmod(angle, 1)
    minutes, rest = divmod(60 * rest, 1)
    return degrees, minutes, 60 * rest
