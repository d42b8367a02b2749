//! (opens with the first commit of this room)

pub mod audit;
pub mod serve;
