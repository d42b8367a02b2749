//! The few descriptions worth having in `kubectl explain`: the kinds we serve first, and the metadata every object has.

pub(super) fn of_type(name: &str) -> Option<&'static str> {
    Some(match name {
        "core/v1.ConfigMap" => "Configuration data as plain text or bytes, for anyone who may read the namespace.",
        "core/v1.Secret" => "Confidential data: passwords, keys, tokens. Encrypted where it is stored.",
        "core/v1.Namespace" => "A scope for names: objects in one namespace do not meet those of another.",
        "core/v1.ServiceAccount" => "An identity for processes, as users have theirs.",
        "core/v1.Event" | "events/v1.Event" => {
            "A report that something happened to an object. Kept for a limited time."
        }
        "coordination/v1.Lease" => "A claim held for a limited time, by which processes agree who leads.",
        "meta/v1.ObjectMeta" => "What every stored object has: its name, labels, owners and history.",
        "meta/v1.ListMeta" => "What every list has: its version and where the next page begins.",
        "meta/v1.Status" => "The outcome of a request that has no object to answer with.",
        "meta/v1.DeleteOptions" => "How an object is to be deleted.",
        "meta/v1.LabelSelector" => {
            "Chooses objects by their labels. All conditions must hold; without any, everything is chosen."
        }
        "meta/v1.OwnerReference" => {
            "Names an object in the same namespace that owns this one; it is deleted with its last owner."
        }
        "apiextensions/v1.CustomResourceDefinition" => "Declares a new kind of resource.",
        _ => return None,
    })
}

pub(crate) fn of_field(ty: &str, field: &str) -> Option<&'static str> {
    // The first three stand in every kind.
    match field {
        "apiVersion" if ty != "core/v1.ObjectReference" => return Some("Group and version of this object's schema."),
        "kind" if !ty.ends_with("Reference") => return Some("The kind of this object. Cannot change."),
        "metadata" => return Some("Standard metadata of the object or list."),
        _ => {}
    }
    Some(match (ty, field) {
        ("core/v1.ConfigMap", "data") => "Text by key. Keys consist of letters, digits, '-', '_' and '.'.",
        ("core/v1.ConfigMap", "binaryData") => "Bytes by key, in base64. No key may also stand in data.",
        ("core/v1.ConfigMap" | "core/v1.Secret", "immutable") => "When true, the data cannot be changed any more.",
        ("core/v1.Secret", "data") => "Bytes by key, in base64.",
        ("core/v1.Secret", "stringData") => "Text by key: written into data, never read back.",
        ("core/v1.Secret", "type") => "What the secret is for; decides which keys must be there.",
        ("core/v1.Namespace", "spec") => "The finalizers that must be done before the namespace goes.",
        ("core/v1.Namespace", "status") => "Whether the namespace is active or going away.",
        ("coordination/v1.Lease", "spec") => "Who holds the lease, since when and for how long.",
        ("coordination/v1.LeaseSpec", "holderIdentity") => "Who holds the lease; empty when nobody does.",
        ("coordination/v1.LeaseSpec", "leaseDurationSeconds") => {
            "How long others wait after the last renewal before they take over."
        }
        ("coordination/v1.LeaseSpec", "acquireTime") => "When the holder took the lease.",
        ("coordination/v1.LeaseSpec", "renewTime") => "When the holder last renewed the lease.",
        ("coordination/v1.LeaseSpec", "leaseTransitions") => "How often the holder has changed.",
        ("meta/v1.ObjectMeta", "name") => "Unique among the objects of its kind in its namespace. Cannot change.",
        ("meta/v1.ObjectMeta", "generateName") => {
            "A prefix from which the server makes a unique name when none is given."
        }
        ("meta/v1.ObjectMeta", "namespace") => "The namespace the object lives in. Cannot change.",
        ("meta/v1.ObjectMeta", "labels") => "Words by key, to choose objects by.",
        ("meta/v1.ObjectMeta", "annotations") => {
            "Notes by key that tools keep on the object; nothing is chosen by them."
        }
        ("meta/v1.ObjectMeta", "uid") => "Identifies this object in time and space. Set by the server.",
        ("meta/v1.ObjectMeta", "resourceVersion") => {
            "The version last written; send it back to write only if nobody else has."
        }
        ("meta/v1.ObjectMeta", "generation") => "Counts changes of the wanted state. Set by the server.",
        ("meta/v1.ObjectMeta", "creationTimestamp") => "When the object was created. Set by the server.",
        ("meta/v1.ObjectMeta", "deletionTimestamp") => {
            "When deletion was asked for, or will be carried out. Set by the server."
        }
        ("meta/v1.ObjectMeta", "deletionGracePeriodSeconds") => {
            "How long the object may take to end once deletion was asked for."
        }
        ("meta/v1.ObjectMeta", "finalizers") => "Who still has to act before a deleted object really goes.",
        ("meta/v1.ObjectMeta", "ownerReferences") => "The objects this one is deleted with.",
        ("meta/v1.ObjectMeta", "managedFields") => "Which manager set which fields. Kept by the server.",
        ("meta/v1.ListMeta", "continue") => "A token to ask for the next page with.",
        ("meta/v1.ListMeta", "remainingItemCount") => "How many objects the next pages hold, when known.",
        ("meta/v1.ListMeta", "resourceVersion") => "The version the list shows; watch from here.",
        (_, "items") => "The objects of the list.",
        _ => return None,
    })
}
