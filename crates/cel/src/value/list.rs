//! Lists. How two of them compare and add up depends on what the schema says identifies an element.

use std::rc::Rc;

use serde_json::Value;

use super::{Evaluated, Key, Mapping, Val, equal};
use crate::decl::{Decl, Identity};
use crate::eval::Meter;

#[derive(Clone, Debug)]
pub(crate) enum List<'a> {
    Json { items: &'a [Value], element: &'a Decl, identity: &'a Identity },
    Owned { items: Rc<Vec<Val<'a>>>, identity: &'a Identity },
}

impl<'a> List<'a> {
    pub fn owned(items: Vec<Val<'a>>) -> List<'a> {
        List::Owned { items: Rc::new(items), identity: &Identity::Atomic }
    }

    pub fn len(&self) -> usize {
        match self {
            List::Json { items, .. } => items.len(),
            List::Owned { items, .. } => items.len(),
        }
    }

    pub fn get(&self, index: usize) -> Option<Evaluated<Val<'a>>> {
        match self {
            List::Json { items, element, .. } => items.get(index).map(|item| Val::bind(item, element)),
            List::Owned { items, .. } => items.get(index).cloned().map(Ok),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Evaluated<Val<'a>>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    fn identity(&self) -> &'a Identity {
        match self {
            List::Json { identity, .. } | List::Owned { identity, .. } => identity,
        }
    }

    pub fn contains(&self, wanted: &Val<'a>, meter: &mut Meter) -> Evaluated<bool> {
        for item in self.iter() {
            if equal(&item?, wanted, meter)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Equality as the left side's identity has it: in order, or whatever the order.
    pub fn equal(&self, other: &List<'a>, meter: &mut Meter) -> Evaluated<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.identity() {
            Identity::Atomic => {
                for (one, two) in self.iter().zip(other.iter()) {
                    if !equal(&one?, &two?, meter)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            identity => {
                let index = self.index(identity, meter)?;
                for item in other.iter() {
                    let item = item?;
                    meter.step(1)?;
                    let Some(place) = index.get(&identify(&item, identity)?) else { return Ok(false) };
                    let same = self.get(*place).transpose()?;
                    if let Some(same) = same
                        && !equal(&same, &item, meter)?
                    {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Concatenation, or the union of sets, or the merge of keyed lists: places of the left, values of the right.
    pub fn add(&self, other: &List<'a>, meter: &mut Meter) -> Evaluated<Val<'a>> {
        meter.allocate((self.len() + other.len()) * size_of::<Val>())?;
        let mut items = match self {
            List::Owned { items, .. } => (**items).clone(),
            json => json.iter().collect::<Evaluated<Vec<_>>>()?,
        };
        let identity = self.identity();
        if *identity == Identity::Atomic {
            for item in other.iter() {
                items.push(item?);
            }
        } else {
            let mut index = self.index(identity, meter)?;
            for item in other.iter() {
                let item = item?;
                let key = identify(&item, identity)?;
                match index.get(&key) {
                    Some(place) => items[*place] = item,
                    None => {
                        index.insert(key, items.len());
                        items.push(item);
                    }
                }
            }
        }
        Ok(Val::List(List::Owned { items: Rc::new(items), identity }))
    }

    /// Where each element is, by what identifies it.
    fn index(
        &self,
        identity: &Identity,
        meter: &mut Meter,
    ) -> Evaluated<std::collections::BTreeMap<Vec<Option<Key<'a>>>, usize>> {
        meter.allocate(self.len() * size_of::<Val>())?;
        let mut index = std::collections::BTreeMap::new();
        for (place, item) in self.iter().enumerate() {
            index.insert(identify(&item?, identity)?, place);
        }
        Ok(index)
    }
}

fn identify<'a>(item: &Val<'a>, identity: &Identity) -> Evaluated<Vec<Option<Key<'a>>>> {
    match (identity, item) {
        (Identity::Map(keys), Val::Map(map)) => keys
            .iter()
            .map(|key| match map {
                Mapping::Owned(_) => map.find(&Val::from(key.clone())),
                Mapping::Json { .. } | Mapping::Object { .. } => map.raw(key),
            })
            .map(|value| value?.map(|value| Key::new(&value)).transpose())
            .collect(),
        _ => Ok(vec![Some(Key::new(item)?)]),
    }
}
