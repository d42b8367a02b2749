//! The machine without any API server, under virtual time.

mod building;
mod crashes;
mod objects;
mod running;
mod stored;
mod world;
