//! Which addresses and node ports services hold: an index that catches up with the store before it answers, so that a new service costs
//! the same however many there are.

use crate::kinds::check::At;
use crate::objects::storage;
use meta::{Object, Status};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use store::{Collection, Entry, Event, Range, Store, Watch};

/// Events taken at once.
const BATCH: usize = 1024;

#[derive(Default)]
pub(crate) struct Taken(Mutex<State>);

#[derive(Default)]
struct State {
    holders: Holders,
    /// None when everything must be read anew.
    watch: Option<Watch>,
}

#[derive(Default)]
pub(super) struct Holders {
    /// What each service (`namespace/name`) holds.
    held: HashMap<Arc<str>, Held>,
    addresses: HashMap<Ipv4Addr, Vec<Arc<str>>>,
    ports: HashMap<i64, Vec<Arc<str>>>,
}

#[derive(Default)]
struct Held {
    address: Option<Ipv4Addr>,
    ports: Vec<i64>,
}

impl Taken {
    /// As the store has it now.
    pub(super) fn read<R>(&self, store: &Store, look: impl FnOnce(&Holders) -> R) -> Result<R, Status> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.catch_up(store)?;
        Ok(look(&state.holders))
    }
}

impl State {
    fn catch_up(&mut self, store: &Store) -> Result<(), Status> {
        if self.take_events().is_ok() && self.watch.is_some() {
            return Ok(());
        }
        *self = State::default();
        let collection = Collection::new("core/services");
        let range = Range { collection: &collection, prefix: "", after: None, limit: 0, at: None };
        let page = store.range(&range, |_, _| true).map_err(storage)?;
        for (item, entry) in &page.items {
            self.holders.set(item, Held::of(entry));
        }
        self.watch = Some(store.watch(&collection, "", page.revision).map_err(storage)?);
        Ok(())
    }

    fn take_events(&mut self) -> store::Result<()> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let mut events: Vec<Arc<Event>> = Vec::new();
        loop {
            events.clear();
            watch.take(BATCH, &mut events)?;
            if events.is_empty() {
                return Ok(());
            }
            for event in &events {
                self.holders.set(&event.key.item, event.entry.as_ref().map(Held::of).unwrap_or_default());
            }
        }
    }
}

impl Holders {
    pub fn has_address(&self, address: Ipv4Addr) -> bool {
        self.addresses.contains_key(&address)
    }

    /// Whether another service than `item` holds the port.
    pub fn has_port(&self, port: i64, item: &str) -> bool {
        self.ports.get(&port).is_some_and(|holders| holders.iter().any(|holder| **holder != *item))
    }

    fn set(&mut self, item: &Arc<str>, now: Held) {
        if let Some(was) = self.held.remove(item) {
            was.address.iter().for_each(|address| remove(&mut self.addresses, address, item));
            was.ports.iter().for_each(|port| remove(&mut self.ports, port, item));
        }
        if now.address.is_none() && now.ports.is_empty() {
            return;
        }
        if let Some(address) = now.address {
            self.addresses.entry(address).or_default().push(item.clone());
        }
        for port in &now.ports {
            self.ports.entry(*port).or_default().push(item.clone());
        }
        self.held.insert(item.clone(), now);
    }
}

fn remove<K: Hash + Eq>(index: &mut HashMap<K, Vec<Arc<str>>>, key: &K, item: &Arc<str>) {
    if let Some(holders) = index.get_mut(key) {
        holders.retain(|holder| holder != item);
        if holders.is_empty() {
            index.remove(key);
        }
    }
}

impl Held {
    /// The address is known without parsing anything: it is a selectable field. Most services have no node ports.
    fn of(entry: &Entry) -> Held {
        let fact = |name: &str| entry.attrs.fields.iter().find(|(key, _)| &**key == name).map(|(_, value)| &**value);
        let address = fact("spec.clusterIP").and_then(|address| address.parse().ok());
        if !matches!(fact("spec.type"), Some("NodePort" | "LoadBalancer")) {
            return Held { address, ports: Vec::new() };
        }
        let object = meta::json::parse(&entry.value).ok().and_then(|parsed| Object::from_value(parsed.value));
        Held { address, ports: object.map(|object| node_ports(&object)).unwrap_or_default() }
    }
}

/// The node ports of a service, each once.
pub(super) fn node_ports(service: &Object) -> Vec<i64> {
    let root = At::root("", &service.0);
    let spec = root.part("spec");
    let mut ports: Vec<i64> =
        spec.items("ports").filter_map(|port| port.int("nodePort")).chain(spec.int("healthCheckNodePort")).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}
