"""Corrections of pictures towards photographs: exposure, a camera's response, a bilateral grid."""
