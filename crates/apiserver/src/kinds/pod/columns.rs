//! What `kubectl get pods` prints.
