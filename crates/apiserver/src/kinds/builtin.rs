//! The rows: every built-in kind we serve.

use super::{
    Behaviour, FINALIZE, Kind, STATUS, StoredAs, access, apps, autoscaling, batch, classes, columns, core, definition,
    metadata, networking, policy, rules, spec_changes,
};
use std::cmp::Reverse;
use store::Collection;

/// A kind as a line of a table.
pub struct Row {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub short: &'static [&'static str],
    pub namespaced: bool,
    pub collection: &'static str,
    pub stored_as: Option<fn() -> StoredAs>,
    pub behaviour: &'static Behaviour,
}

/// What most kinds do; rows state only what they do otherwise.
pub const PLAIN: Behaviour = Behaviour {
    name: metadata::subdomain,
    generation: false,
    changes: spec_changes,
    status: false,
    resets: &[],
    status_metadata: true,
    born_with_status: false,
    subresources: &[],
    categories: &[],
    create_on_update: false,
    unconditional_update: true,
    deprecation: "",
    returns_deleted: false,
    selectable: &[],
    deletes_collection: true,
    columns: columns::PLAIN,
    cells: columns::plain,
    action: None,
    waits: false,
    grace: |_, _| None,
    one_by_one: false,
    default: |_| {},
    runs_as_account: false,
    admit: |_, _, _| Ok(()),
    prepare_create: |_| {},
    prepare_update: |_, _| {},
    prepare_part: |_, _, _| {},
    validate: |_| Vec::new(),
    validate_create: |_| Vec::new(),
    validate_update: |_, _| Vec::new(),
    validate_part: |_, _, _| Vec::new(),
    authored: None,
    advice: None,
    warnings: None,
    orphans: false,
};

static NAMESPACE: Behaviour = Behaviour {
    name: metadata::label,
    status: true,
    subresources: &[FINALIZE],
    selectable: &[("status.phase", "status.phase")],
    deletes_collection: false,
    columns: columns::NAMESPACE,
    cells: columns::namespace,
    default: rules::namespace_default,
    prepare_create: rules::namespace_create,
    prepare_update: rules::namespace_update,
    validate: rules::namespace,
    ..PLAIN
};

static CONFIG_MAP: Behaviour = Behaviour {
    columns: columns::CONFIG_MAP,
    cells: columns::config_map,
    validate: rules::config_map,
    validate_update: rules::immutable_data,
    ..PLAIN
};

static SECRET: Behaviour = Behaviour {
    selectable: &[("type", "type")],
    columns: columns::SECRET,
    cells: columns::secret,
    default: rules::secret_default,
    validate: rules::secret,
    validate_update: rules::secret_update,
    ..PLAIN
};

static SERVICE_ACCOUNT: Behaviour = Behaviour {
    subresources: &[access::TOKEN],
    returns_deleted: true,
    prepare_create: rules::service_account_prepare,
    prepare_update: |object, _| rules::service_account_prepare(object),
    columns: columns::SERVICE_ACCOUNT,
    cells: columns::service_account,
    ..PLAIN
};

static LEASE: Behaviour = Behaviour {
    create_on_update: true,
    unconditional_update: false,
    columns: columns::LEASE,
    cells: columns::lease,
    prepare_create: rules::lease_prepare,
    prepare_update: |object, _| rules::lease_prepare(object),
    validate: rules::lease,
    ..PLAIN
};

static EVENT: Behaviour = Behaviour {
    name: metadata::segment,
    create_on_update: true,
    selectable: &[
        ("involvedObject.kind", "involvedObject.kind"),
        ("involvedObject.namespace", "involvedObject.namespace"),
        ("involvedObject.name", "involvedObject.name"),
        ("involvedObject.uid", "involvedObject.uid"),
        ("involvedObject.apiVersion", "involvedObject.apiVersion"),
        ("involvedObject.resourceVersion", "involvedObject.resourceVersion"),
        ("involvedObject.fieldPath", "involvedObject.fieldPath"),
        ("reason", "reason"),
        ("reportingComponent", "reportingComponent"),
        ("source", "source.component"),
        ("type", "type"),
    ],
    columns: columns::EVENT,
    cells: columns::event,
    validate: rules::event,
    ..PLAIN
};

/// events.k8s.io/v1 shows the same objects under other field names.
static NEW_EVENT: Behaviour = Behaviour {
    selectable: &[
        ("regarding.kind", "involvedObject.kind"),
        ("regarding.namespace", "involvedObject.namespace"),
        ("regarding.name", "involvedObject.name"),
        ("regarding.uid", "involvedObject.uid"),
        ("regarding.apiVersion", "involvedObject.apiVersion"),
        ("regarding.resourceVersion", "involvedObject.resourceVersion"),
        ("regarding.fieldPath", "involvedObject.fieldPath"),
        ("reason", "reason"),
        ("reportingController", "reportingComponent"),
        ("type", "type"),
    ],
    name: metadata::subdomain,
    validate: rules::new_event,
    validate_create: rules::event_series,
    validate_update: rules::new_event_update,
    ..EVENT
};

static DEFINITION: Behaviour = Behaviour {
    categories: &["api-extensions"],
    generation: true,
    status: true,
    unconditional_update: false,
    default: |object| schema::crd::default(&mut object.0),
    prepare_create: definition::prepare_create,
    prepare_update: definition::prepare_update,
    validate_create: |object| schema::crd::validate(&object.0, None),
    validate_update: |object, old| schema::crd::validate(&object.0, Some(&old.0)),
    validate_part: |_, object, old| schema::crd::validate(&object.0, Some(&old.0)),
    warnings: Some(|object, old| schema::crd::warnings(&object.0, old.map(|old| &old.0))),
    ..PLAIN
};

fn event_renames() -> StoredAs {
    StoredAs {
        api_version: "v1",
        renames: &[
            ("message", "note"),
            ("involvedObject", "regarding"),
            ("source", "deprecatedSource"),
            ("firstTimestamp", "deprecatedFirstTimestamp"),
            ("lastTimestamp", "deprecatedLastTimestamp"),
            ("count", "deprecatedCount"),
            ("reportingComponent", "reportingController"),
        ],
        to_stored: |_| {},
        to_served: |_| {},
    }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", singular: "configmap", short: &["cm"], namespaced: true, collection: "core/configmaps", stored_as: None, behaviour: &CONFIG_MAP },
    Row { group: "", version: "v1", kind: "Event", plural: "events", singular: "event", short: &["ev"], namespaced: true, collection: "core/events", stored_as: None, behaviour: &EVENT },
    Row { group: "", version: "v1", kind: "Namespace", plural: "namespaces", singular: "namespace", short: &["ns"], namespaced: false, collection: "core/namespaces", stored_as: None, behaviour: &NAMESPACE },
    Row { group: "", version: "v1", kind: "Secret", plural: "secrets", singular: "secret", short: &[], namespaced: true, collection: "core/secrets", stored_as: None, behaviour: &SECRET },
    Row { group: "", version: "v1", kind: "ServiceAccount", plural: "serviceaccounts", singular: "serviceaccount", short: &["sa"], namespaced: true, collection: "core/serviceaccounts", stored_as: None, behaviour: &SERVICE_ACCOUNT },
    Row { group: "events.k8s.io", version: "v1", kind: "Event", plural: "events", singular: "event", short: &["ev"], namespaced: true, collection: "core/events", stored_as: Some(event_renames), behaviour: &NEW_EVENT },
    Row { group: "apiextensions.k8s.io", version: "v1", kind: "CustomResourceDefinition", plural: "customresourcedefinitions", singular: "customresourcedefinition", short: &["crd", "crds"], namespaced: false, collection: "apiextensions.k8s.io/customresourcedefinitions", stored_as: None, behaviour: &DEFINITION },
    Row { group: "coordination.k8s.io", version: "v1", kind: "Lease", plural: "leases", singular: "lease", short: &[], namespaced: true, collection: "coordination.k8s.io/leases", stored_as: None, behaviour: &LEASE },
];

/// Groups in the order of discovery, which is also the order in which `kubectl get all` shows them.
const GROUPS: &[&str] = &[
    "",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
];

/// Newest versions first; within one, kinds by their plural.
pub fn kinds() -> Vec<Kind> {
    let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
    let rows =
        [ROWS, core::ROWS, apps::ROWS, batch::ROWS, autoscaling::ROWS, policy::ROWS, networking::ROWS, classes::ROWS]
            .into_iter()
            .flatten();
    let mut kinds: Vec<Kind> = rows
        .map(|row| Kind {
            group: row.group.into(),
            version: row.version.into(),
            kind: row.kind.into(),
            plural: row.plural.into(),
            singular: row.singular.into(),
            short_names: owned(row.short),
            categories: owned(row.behaviour.categories),
            namespaced: row.namespaced,
            collection: Collection::new(row.collection),
            stored_as: row.stored_as.map(|make| make()),
            behaviour: row.behaviour,
            subresources: row
                .behaviour
                .subresources
                .iter()
                .chain(row.behaviour.status.then_some(&STATUS))
                .cloned()
                .collect(),
            action: row.behaviour.action,
            custom: None,
            ordinal: 0,
        })
        .chain(access::kinds())
        .collect();
    let place = |group: &str| GROUPS.iter().position(|known| *known == group).unwrap_or(GROUPS.len());
    kinds.sort_by_cached_key(|kind| (place(&kind.group), Reverse(kind.version.clone()), kind.plural.clone()));
    for (ordinal, kind) in kinds.iter_mut().enumerate() {
        kind.ordinal = ordinal;
    }
    kinds
}

/// Collections whose values are sealed at rest.
pub const SEALED: &[&str] = &["core/secrets"];
