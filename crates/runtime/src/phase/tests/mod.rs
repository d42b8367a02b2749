//! The machine without any API server, under virtual time.

mod building;
mod crashes;
mod running;
mod stored;
mod world;
