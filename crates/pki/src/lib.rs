//! (opens with the first commit of this room)
