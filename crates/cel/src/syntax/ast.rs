//! The tree an expression is: nodes in one vector, so that later passes keep their findings in vectors beside it.

/// Deeper trees are refused: every pass recurses once per level.
pub(crate) const MAX_DEPTH: u16 = 250;
/// Macros copy subtrees; this bounds what they may grow to.
const MAX_NODES: usize = 200_000;

pub(crate) type Id = u32;

#[derive(Default)]
pub(crate) struct Ast {
    nodes: Vec<Node>,
}

pub(crate) struct Node {
    /// Byte offset in the source that errors point to.
    pub at: u32,
    depth: u16,
    pub kind: Kind,
}

#[derive(Clone)]
pub(crate) enum Kind {
    /// What stands where a syntax error was found.
    Broken,
    Literal(Literal),
    Ident(String),
    Select {
        operand: Id,
        field: String,
        /// `has(operand.field)`.
        test: bool,
    },
    Call {
        function: String,
        target: Option<Id>,
        args: Vec<Id>,
    },
    List(Vec<Element>),
    Map(Vec<Entry>),
    /// `Name{…}`: no type of ours can be built this way, so only the name is kept, to be refused.
    Message(String),
    Fold(Box<Fold>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

#[derive(Clone)]
pub(crate) struct Element {
    pub value: Id,
    pub optional: bool,
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub key: Id,
    pub value: Id,
    pub optional: bool,
}

/// The one loop every macro becomes.
#[derive(Clone)]
pub(crate) struct Fold {
    pub range: Id,
    pub variable: String,
    pub second: Option<String>,
    pub accumulator: String,
    pub init: Id,
    pub condition: Id,
    pub step: Id,
    pub result: Id,
}

impl Fold {
    /// Whether it is no loop but binds its accumulator, which then has the name of a variable.
    pub fn is_binding(&self) -> bool {
        !self.accumulator.starts_with('@')
    }
}

/// Why a tree stopped growing.
#[derive(Debug, PartialEq)]
pub(crate) struct TooLarge(pub &'static str);

impl Ast {
    pub fn add(&mut self, at: u32, kind: Kind) -> Result<Id, TooLarge> {
        let depth = kind.children().into_iter().map(|child| self[child].depth).max().unwrap_or(0) + 1;
        if depth > MAX_DEPTH {
            return Err(TooLarge("max recursion depth exceeded"));
        }
        if self.nodes.len() >= MAX_NODES {
            return Err(TooLarge("expression expands to too many nodes"));
        }
        self.nodes.push(Node { at, depth, kind });
        Ok(self.nodes.len() as Id - 1)
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn kind_mut(&mut self, id: Id) -> &mut Kind {
        &mut self.nodes[id as usize].kind
    }

    /// A second copy of a subtree: each place of a tree has its own types and costs.
    pub fn copy(&mut self, id: Id) -> Result<Id, TooLarge> {
        let mut kind = self[id].kind.clone();
        let mut failed = None;
        kind.for_each_child(&mut |child| match self.copy(*child) {
            Ok(copy) => *child = copy,
            Err(error) => failed = Some(error),
        });
        match failed {
            Some(error) => Err(error),
            None => self.add(self[id].at, kind),
        }
    }

    /// `a.b.c` as a dotted name, if the node is nothing but names.
    pub fn qualified_name(&self, id: Id) -> Option<String> {
        match &self[id].kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, test: false } => Some(format!("{}.{field}", self.qualified_name(*operand)?)),
            _ => None,
        }
    }
}

impl std::ops::Index<Id> for Ast {
    type Output = Node;
    fn index(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }
}

impl Kind {
    pub fn children(&self) -> Vec<Id> {
        let mut children = Vec::new();
        self.clone().for_each_child(&mut |child| children.push(*child));
        children
    }

    fn for_each_child(&mut self, visit: &mut dyn FnMut(&mut Id)) {
        match self {
            Kind::Broken | Kind::Literal(_) | Kind::Ident(_) | Kind::Message(_) => {}
            Kind::Select { operand, .. } => visit(operand),
            Kind::Call { target, args, .. } => target.iter_mut().chain(args).for_each(visit),
            Kind::List(elements) => elements.iter_mut().for_each(|element| visit(&mut element.value)),
            Kind::Map(entries) => entries.iter_mut().for_each(|entry| {
                visit(&mut entry.key);
                visit(&mut entry.value);
            }),
            Kind::Fold(fold) => {
                for child in [&mut fold.range, &mut fold.init, &mut fold.condition, &mut fold.step, &mut fold.result] {
                    visit(child);
                }
            }
        }
    }
}
