//! Why a patch was refused, in the words of Kubernetes where it has them.

use crate::{MAX_DEPTH, json_patch};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The patch is not the kind of document its media type promises.
    #[error("error decoding patch: {0}")]
    Malformed(String),
    #[error("The allowed maximum operations in a JSON patch is {max}, got {0}", max = json_patch::MAX_OPERATIONS)]
    TooManyOperations(usize),
    #[error("the document would nest deeper than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("the patch moves more data around than one request may")]
    TooMuchWork,

    #[error("Unexpected kind: {0}")]
    UnknownOperation(String),
    #[error("{operation} operation failed to decode {member}: missing value")]
    MissingMember { operation: &'static str, member: &'static str },
    /// A parent of the place an operation names does not exist, or is neither object nor array.
    #[error("{operation} operation does not apply: {what}: {path}: missing value")]
    MissingPath { operation: &'static str, what: &'static str, path: String },
    #[error("error in {operation} for path: '{path}': Unable to remove nonexistent key: {key}: missing value")]
    MissingKey { operation: &'static str, path: String, key: String },
    #[error(
        "error in {operation} for path: '{path}': Unable to access invalid index: {index}: invalid index referenced"
    )]
    BadIndex { operation: &'static str, path: String, index: String },
    #[error("testing value {0} failed: test failed")]
    TestFailed(String),
    #[error(
        "Unable to complete the copy, the accumulated size increase of copy is {size}, exceeding the limit {limit}"
    )]
    CopyTooLarge { size: usize, limit: usize },

    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownDirective { directive: String, map: String },
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirectiveInList,
    #[error("map: {map} does not contain declared merge key: {key}")]
    NoMergeKey { map: String, key: String },
    #[error("cannot merge lists without merge key for {0}")]
    ListWithoutMergeKey(String),
    #[error("lists of lists are not supported")]
    ListOfLists,
    #[error("list element types are not identical: {0}")]
    MixedList(String),
    #[error("invalid patch format of primitive list")]
    BadDeleteFromPrimitiveList,
    #[error("invalid patch format of retainKeys")]
    BadRetainKeys,
    #[error("invalid patch format of setElementOrder list")]
    BadSetElementOrder,
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch { patch: String, order: String },
}

impl Error {
    /// The HTTP status this refusal deserves.
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooManyOperations(_) => 413,
            _ => 422,
        }
    }
}
