//! Every reconciler of a program, registered in one line each; the manager picks those that are enabled.

use std::{marker::PhantomData, sync::Arc};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Client, CustomResourceExt, Resource};
use serde::de::DeserializeOwned;

use crate::{
    Clock, Controller, Metrics, Reconciler, Recorder,
    controller::{BoxError, Prepare},
    phase::Graph,
};

/// The reconcilers a program has.
#[derive(Default)]
pub struct Registry {
    registrations: Vec<Registration>,
}

/// One reconciler: its name, its kind, and how to make it.
#[derive(Clone)]
pub struct Registration {
    /// As it is enabled, configured and shown.
    pub name: Arc<str>,
    /// The kind it reconciles.
    pub kind: Arc<str>,
    /// The group of the kind; empty for the core group.
    pub group: Arc<str>,
    /// The version of the kind.
    pub version: Arc<str>,
    /// The definitions its kinds need, when they are not built in.
    pub crds: Vec<CustomResourceDefinition>,
    /// Its phase machine as a picture, when it is one.
    pub graph: Option<Graph>,
    pub(crate) build: Build,
}

type Build = Arc<dyn Fn(&Setup) -> Result<Box<dyn Prepare>, BoxError> + Send + Sync>;

/// What a reconciler is made with.
#[derive(Clone)]
pub struct Setup {
    /// Its name in the registry.
    pub name: Arc<str>,
    /// The API. Refuses writes while this process does not lead.
    pub client: Client,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Events on objects.
    pub events: Recorder,
    /// Figures of the process.
    pub metrics: Metrics,
    /// Its own section of the configuration; null when there is none.
    pub options: serde_json::Value,
}

impl Setup {
    /// The reconciler's own section of the configuration, or the defaults.
    pub fn options<T: DeserializeOwned + Default>(&self) -> Result<T, BoxError> {
        if self.options.is_null() {
            return Ok(T::default());
        }
        T::deserialize(&self.options).map_err(|why| format!("options of {}: {why}", self.name).into())
    }
}

impl Registry {
    /// Without any.
    pub fn new() -> Self {
        Registry::default()
    }

    /// Adds a reconciler. `build` runs when it is enabled, and again when it is enabled again.
    ///
    /// ```ignore
    /// registry.register("at", |setup| Ok(Controller::new(At::new(setup.options()?)))).crd();
    /// ```
    pub fn register<R: Reconciler>(
        &mut self,
        name: &str,
        build: impl Fn(&Setup) -> Result<Controller<R>, BoxError> + Send + Sync + 'static,
    ) -> Registered<'_, R> {
        self.registrations.push(Registration {
            name: name.into(),
            kind: R::Object::kind(&()).into(),
            group: R::Object::group(&()).into(),
            version: R::Object::version(&()).into(),
            crds: Vec::new(),
            graph: None,
            build: Arc::new(move |setup| Ok(Box::new(build(setup)?))),
        });
        let at = self.registrations.len() - 1;
        Registered { registration: &mut self.registrations[at], reconciler: PhantomData }
    }

    /// All of them, in the order of registration.
    pub fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.registrations.iter()
    }

    /// The one of that name.
    pub fn get(&self, name: &str) -> Option<&Registration> {
        self.registrations.iter().find(|registration| &*registration.name == name)
    }

    /// The phase machines, each under its kind.
    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.iter().filter_map(|registration| registration.graph.as_ref())
    }

    /// The definitions of all kinds, each once.
    pub fn crds(&self) -> Vec<CustomResourceDefinition> {
        let mut crds: Vec<CustomResourceDefinition> = Vec::new();
        for crd in self.iter().flat_map(|registration| &registration.crds) {
            if !crds.iter().any(|known| known.metadata.name == crd.metadata.name) {
                crds.push(crd.clone());
            }
        }
        crds
    }
}

/// A reconciler that was just registered, to say more about it.
pub struct Registered<'a, R> {
    registration: &'a mut Registration,
    reconciler: PhantomData<R>,
}

impl<R: Reconciler> Registered<'_, R> {
    /// Its kind has a definition.
    pub fn crd(self) -> Self
    where
        R::Object: CustomResourceExt,
    {
        self.also_crd::<R::Object>()
    }

    /// It is a phase machine that looks like this.
    pub fn graph(self, graph: Graph) -> Self {
        self.registration.graph = Some(graph);
        self
    }

    /// A further kind it needs has a definition.
    pub fn also_crd<K: CustomResourceExt>(self) -> Self {
        self.registration.crds.push(K::crd());
        self
    }
}
