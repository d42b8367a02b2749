//! What may change in a pod that exists.
