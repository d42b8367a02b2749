//! The kinds of the core group that make up a cluster: pods, nodes, services, volumes.

use super::builtin::{PLAIN, Row};
use super::{
    Action, Behaviour, Connect, GroupVersionKind, ScalePaths, ScaleSelector, Subresource, apps, endpoints, limits,
    metadata, node, pod, service, templates, volumes,
};
use crate::objects::Part;
use crate::pods::{BINDING, EVICTION};
use crate::services;
use std::borrow::Cow;

const fn core(kind: &'static str) -> GroupVersionKind {
    GroupVersionKind { group: "", version: "v1", kind }
}

static POD: Behaviour = Behaviour {
    generation: true,
    status: true,
    resets: &[("status", "metadata.deletionTimestamp"), ("status", "metadata.ownerReferences")],
    categories: &["all"],
    returns_deleted: true,
    subresources: &[
        Subresource::connect("attach", Connect::Attach, core("PodAttachOptions")),
        Subresource::action("binding", Action::Bind, BINDING),
        Subresource::part("ephemeralcontainers", Part::EphemeralContainers),
        Subresource::action("eviction", Action::Evict, EVICTION),
        Subresource::connect("exec", Connect::Exec, core("PodExecOptions")),
        Subresource::connect("log", Connect::Log, core("Pod")),
        Subresource::connect("portforward", Connect::PortForward, core("PodPortForwardOptions")),
        Subresource::connect("proxy", Connect::Proxy, core("PodProxyOptions")),
        Subresource::part("resize", Part::Resize),
    ],
    selectable: &[
        ("spec.nodeName", "spec.nodeName"),
        ("spec.host", "spec.nodeName"),
        ("spec.restartPolicy", "spec.restartPolicy"),
        ("spec.schedulerName", "spec.schedulerName"),
        ("spec.serviceAccountName", "spec.serviceAccountName"),
        ("spec.hostNetwork", "spec.hostNetwork?false"),
        ("status.phase", "status.phase"),
        ("status.podIP", "status.podIP"),
        ("status.nominatedNodeName", "status.nominatedNodeName"),
    ],
    columns: pod::columns::POD,
    cells: pod::columns::pod,
    waits: true,
    advice: Some(pod::update::advice),
    warnings: Some(pod::update::warnings),
    grace: pod::update::grace,
    runs_as_account: true,
    default: pod::default_pod,
    admit: pod::update::admit,
    prepare_create: pod::update::prepare_create,
    prepare_part: pod::update::prepare_part,
    validate: pod::validate,
    validate_create: pod::update::validate_create,
    validate_update: pod::update::validate_update,
    validate_part: pod::update::validate_part,
    ..PLAIN
};

static BINDINGS: Behaviour = Behaviour { action: Some(Action::Bind), ..PLAIN };

static NODE: Behaviour = Behaviour {
    status: true,
    born_with_status: true,
    subresources: &[Subresource::connect("proxy", Connect::Proxy, core("NodeProxyOptions"))],
    selectable: &[("spec.unschedulable", "spec.unschedulable?false")],
    columns: node::COLUMNS,
    cells: node::cells,
    default: node::default,
    prepare_create: node::prepare_create,
    prepare_update: node::prepare_update,
    validate: node::validate,
    validate_update: node::validate_update,
    validate_part: node::validate_part,
    ..PLAIN
};

static SERVICE: Behaviour = Behaviour {
    name: metadata::service,
    status: true,
    categories: &["all"],
    returns_deleted: true,
    create_on_update: true,
    one_by_one: true,
    subresources: &[Subresource::connect("proxy", Connect::Proxy, core("ServiceProxyOptions"))],
    selectable: &[("spec.clusterIP", "spec.clusterIP"), ("spec.type", "spec.type")],
    columns: service::COLUMNS,
    cells: service::cells,
    default: service::default,
    admit: services::admit,
    prepare_update: service::prepare_update,
    warnings: Some(service::warnings),
    validate: service::validate,
    validate_update: service::validate_update,
    validate_part: service::validate_part,
    ..PLAIN
};

static ENDPOINTS: Behaviour = Behaviour {
    deprecation: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    create_on_update: true,
    columns: endpoints::COLUMNS,
    cells: endpoints::cells,
    default: endpoints::default,
    validate: endpoints::validate,
    ..PLAIN
};

static ENDPOINT_SLICE: Behaviour = Behaviour {
    generation: true,
    warnings: Some(endpoints::slice_warnings),
    prepare_update: endpoints::slice_update,
    columns: endpoints::SLICE_COLUMNS,
    cells: endpoints::slice_cells,
    default: endpoints::slice_default,
    validate: endpoints::slice_validate,
    validate_update: endpoints::slice_validate_update,
    ..PLAIN
};

static VOLUME: Behaviour = Behaviour {
    status: true,
    returns_deleted: true,
    columns: volumes::VOLUME_COLUMNS,
    cells: volumes::volume_cells,
    default: volumes::volume_default,
    admit: volumes::volume_admit,
    prepare_part: volumes::volume_prepare_part,
    validate: volumes::volume_validate,
    validate_update: volumes::volume_validate_update,
    ..PLAIN
};

static CLAIM: Behaviour = Behaviour {
    status: true,
    returns_deleted: true,
    columns: volumes::CLAIM_COLUMNS,
    cells: volumes::claim_cells,
    default: volumes::claim_default,
    admit: volumes::claim_admit,
    prepare_create: volumes::claim_create,
    prepare_update: volumes::claim_update,
    validate: volumes::claim_validate,
    validate_update: volumes::claim_validate_update,
    ..PLAIN
};

static TEMPLATE: Behaviour = Behaviour {
    generation: true,
    returns_deleted: true,
    columns: templates::TEMPLATE_COLUMNS,
    cells: templates::template_cells,
    default: templates::template_default,
    warnings: Some(templates::template_warnings),
    validate: templates::template_validate,
    ..PLAIN
};

static CONTROLLER: Behaviour = Behaviour {
    orphans: true,
    generation: true,
    status: true,
    categories: &["all"],
    subresources: &[Subresource::scale(ScalePaths {
        replicas: Cow::Borrowed("spec.replicas"),
        current: Cow::Borrowed("status.replicas"),
        selector: ScaleSelector::Labels,
    })],
    selectable: &[("status.replicas", "status.replicas")],
    columns: templates::CONTROLLER_COLUMNS,
    cells: templates::controller_cells,
    default: templates::controller_default,
    warnings: Some(apps::named_warnings),
    validate: templates::controller_validate,
    validate_part: templates::controller_validate_part,
    ..PLAIN
};

static LIMIT_RANGE: Behaviour = Behaviour {
    create_on_update: true,
    default: limits::range_default,
    prepare_create: limits::range_create,
    validate: limits::range_validate,
    ..PLAIN
};

static QUOTA: Behaviour = Behaviour {
    status: true,
    returns_deleted: true,
    columns: limits::QUOTA_COLUMNS,
    cells: limits::quota_cells,
    default: limits::quota_default,
    validate: limits::quota_validate,
    validate_update: limits::quota_validate_update,
    validate_part: limits::quota_validate_part,
    ..PLAIN
};

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    Row { group: "", version: "v1", kind: "Binding", plural: "bindings", singular: "binding", short: &[], namespaced: true, collection: "", stored_as: None, behaviour: &BINDINGS },
    Row { group: "", version: "v1", kind: "Endpoints", plural: "endpoints", singular: "endpoints", short: &["ep"], namespaced: true, collection: "core/endpoints", stored_as: None, behaviour: &ENDPOINTS },
    Row { group: "", version: "v1", kind: "LimitRange", plural: "limitranges", singular: "limitrange", short: &["limits"], namespaced: true, collection: "core/limitranges", stored_as: None, behaviour: &LIMIT_RANGE },
    Row { group: "", version: "v1", kind: "Node", plural: "nodes", singular: "node", short: &["no"], namespaced: false, collection: "core/nodes", stored_as: None, behaviour: &NODE },
    Row { group: "", version: "v1", kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims", singular: "persistentvolumeclaim", short: &["pvc"], namespaced: true, collection: "core/persistentvolumeclaims", stored_as: None, behaviour: &CLAIM },
    Row { group: "", version: "v1", kind: "PersistentVolume", plural: "persistentvolumes", singular: "persistentvolume", short: &["pv"], namespaced: false, collection: "core/persistentvolumes", stored_as: None, behaviour: &VOLUME },
    Row { group: "", version: "v1", kind: "Pod", plural: "pods", singular: "pod", short: &["po"], namespaced: true, collection: "core/pods", stored_as: None, behaviour: &POD },
    Row { group: "", version: "v1", kind: "PodTemplate", plural: "podtemplates", singular: "podtemplate", short: &[], namespaced: true, collection: "core/podtemplates", stored_as: None, behaviour: &TEMPLATE },
    Row { group: "", version: "v1", kind: "ReplicationController", plural: "replicationcontrollers", singular: "replicationcontroller", short: &["rc"], namespaced: true, collection: "core/replicationcontrollers", stored_as: None, behaviour: &CONTROLLER },
    Row { group: "", version: "v1", kind: "ResourceQuota", plural: "resourcequotas", singular: "resourcequota", short: &["quota"], namespaced: true, collection: "core/resourcequotas", stored_as: None, behaviour: &QUOTA },
    Row { group: "", version: "v1", kind: "Service", plural: "services", singular: "service", short: &["svc"], namespaced: true, collection: "core/services", stored_as: None, behaviour: &SERVICE },
    Row { group: "discovery.k8s.io", version: "v1", kind: "EndpointSlice", plural: "endpointslices", singular: "endpointslice", short: &[], namespaced: true, collection: "discovery.k8s.io/endpointslices", stored_as: None, behaviour: &ENDPOINT_SLICE },
];
