//! The worked examples of the controller framework: one folder per reconciler (KC-7).

pub mod redismigration;
