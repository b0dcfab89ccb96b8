"""From a resolved plan to a trainer: photographs, initial state, memory."""
