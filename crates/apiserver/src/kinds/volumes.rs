//! Persistent volumes and the claims for them.

use super::check::At;
use meta::FieldErrors;

/// The rules of a PersistentVolumeClaimSpec.
pub fn claim_spec(_at: &At<'_>, _errors: &mut FieldErrors) {}
