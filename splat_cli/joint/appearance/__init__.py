"""Colour corrections of renders per photograph: exposure, camera response, bilateral grid."""
