//! Sets of fields, as a tree of path elements.

use std::cmp::Ordering;

use super::element::Element;

/// A set of paths. A path and the paths below it are members independently of each other: owning `spec` is not owning
/// `spec.replicas`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet<'a> {
    /// Sorted by element, each once; each is a member or has children.
    pub(super) branches: Vec<Branch<'a>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branch<'a> {
    pub element: Element<'a>,
    pub member: bool,
    pub children: FieldSet<'a>,
}

impl<'a> FieldSet<'a> {
    pub fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.branches.iter().map(|b| usize::from(b.member) + b.children.len()).sum()
    }

    pub fn has(&self, path: &[Element<'_>]) -> bool {
        match path {
            [] => false,
            [last] => self.find(last).is_some_and(|b| b.member),
            [first, rest @ ..] => self.find(first).is_some_and(|b| b.children.has(rest)),
        }
    }

    pub fn insert(&mut self, path: &[Element<'a>]) {
        let [first, rest @ ..] = path else { return };
        let at = match self.search(first) {
            Ok(at) => at,
            Err(at) => {
                let branch = Branch { element: first.clone(), member: false, children: FieldSet::default() };
                self.branches.insert(at, branch);
                at
            }
        };
        if rest.is_empty() {
            self.branches[at].member = true;
        } else {
            self.branches[at].children.insert(rest);
        }
    }

    /// The members that have no members below them.
    pub fn leaves(mut self) -> Self {
        for branch in &mut self.branches {
            if !branch.children.is_empty() {
                branch.member = false;
                branch.children = std::mem::take(&mut branch.children).leaves();
            }
        }
        self
    }

    /// Every path, those of a level before those below it.
    pub fn paths(&self) -> Vec<Vec<Element<'a>>> {
        let mut out = Vec::new();
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<Element<'a>>, out: &mut Vec<Vec<Element<'a>>>) {
        for branch in self.branches.iter().filter(|b| b.member) {
            out.push(prefix.iter().chain([&branch.element]).cloned().collect());
        }
        for branch in &self.branches {
            prefix.push(branch.element.clone());
            branch.children.collect(prefix, out);
            prefix.pop();
        }
    }

    pub fn union(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let mut branches = Vec::with_capacity(self.branches.len().max(other.branches.len()));
        let (mut left, mut right) = (self.branches.into_iter().peekable(), other.branches.into_iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            match a.element.cmp(&b.element) {
                Ordering::Less => branches.extend(left.next()),
                Ordering::Greater => branches.extend(right.next()),
                Ordering::Equal => {
                    if let (Some(mut a), Some(b)) = (left.next(), right.next()) {
                        a.member |= b.member;
                        a.children = a.children.union(b.children);
                        branches.push(a);
                    }
                }
            }
        }
        branches.extend(left);
        branches.extend(right);
        Self { branches }
    }

    /// The members of both.
    pub fn intersection(&self, other: &FieldSet<'_>) -> Self {
        let mut branches = Vec::new();
        for (a, b) in pairs(&self.branches, &other.branches) {
            let Some(b) = b else { continue };
            let member = a.member && b.member;
            let children = a.children.intersection(&b.children);
            if member || !children.is_empty() {
                branches.push(Branch { element: a.element.clone(), member, children });
            }
        }
        Self { branches }
    }

    /// The members that are not in `other`.
    pub fn difference(self, other: &FieldSet<'_>) -> Self {
        self.without(other, false)
    }

    /// The members that neither are in `other` nor stand below one that is.
    pub fn recursive_difference(self, other: &FieldSet<'_>) -> Self {
        self.without(other, true)
    }

    fn without(mut self, other: &FieldSet<'_>, recursive: bool) -> Self {
        if other.is_empty() {
            return self;
        }
        let mut gone = other.branches.iter().peekable();
        self.branches.retain_mut(|branch| {
            while gone.peek().is_some_and(|g| g.element < branch.element) {
                gone.next();
            }
            let Some(gone) = gone.peek().filter(|g| g.element == branch.element) else { return true };
            if gone.member && recursive {
                return false;
            }
            branch.member &= !gone.member;
            branch.children = std::mem::take(&mut branch.children).without(&gone.children, recursive);
            branch.member || !branch.children.is_empty()
        });
        self
    }

    pub(super) fn find(&self, element: &Element<'_>) -> Option<&Branch<'a>> {
        self.search(element).ok().map(|at| &self.branches[at])
    }

    fn search(&self, element: &Element<'_>) -> Result<usize, usize> {
        self.branches.binary_search_by(|b| b.element.cmp(element))
    }

    /// Appends a branch unless it is empty; the caller pushes in order, or [sorts](Self::sort) afterwards.
    pub(super) fn push(&mut self, element: &Element<'a>, member: bool, children: Self) {
        if member || !children.is_empty() {
            self.branches.push(Branch { element: element.clone(), member, children });
        }
    }

    /// Restores the order; of equal elements one remains, with what all of them had.
    pub(super) fn sort(&mut self) {
        if self.branches.is_sorted_by(|a, b| a.element < b.element) {
            return;
        }
        self.branches.sort_by(|a, b| a.element.cmp(&b.element));
        self.branches.dedup_by(|later, kept| {
            let same = later.element == kept.element;
            if same {
                kept.member |= later.member;
                let children = std::mem::take(&mut kept.children);
                kept.children = children.union(std::mem::take(&mut later.children));
            }
            same
        });
    }
}

/// Each branch of `a` with its counterpart in `b`; both are sorted.
fn pairs<'s, 'a, 'b>(
    a: &'s [Branch<'a>],
    b: &'s [Branch<'b>],
) -> impl Iterator<Item = (&'s Branch<'a>, Option<&'s Branch<'b>>)> {
    let mut rest = b;
    a.iter().map(move |branch| {
        while let [first, others @ ..] = rest {
            if first.element >= branch.element {
                break;
            }
            rest = others;
        }
        (branch, rest.first().filter(|b| b.element == branch.element))
    })
}
