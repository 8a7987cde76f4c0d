//! Checks of the audit log.

use kassette_engine::IVec;

use crate::Fault;
use crate::rows::schema;
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::{Kind, plain};

/// The kinds of rows of the audit log.
pub(crate) const KINDS: &[Kind] = &[
    Kind::new(3, "audit-line", b"aud/", audit),
    Kind::new(18, "audit-end", schema::AUDIT_END, plain::<(u64, [u8; 32])>),
];

/// Checks a line of the audit log. Lines arrive in order.
fn audit(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    if verifier.is_second() {
        return Ok(());
    }
    let number = schema::audit_number(key).unwrap_or_default();
    match super::decode(&verifier.secrets.sealer, key, row) {
        Ok(entry) => {
            verifier.audit.follow(number, Some(&entry));
            verifier.newest.note(&entry);
            Ok(())
        }
        Err(fault) => {
            verifier.audit.follow(number, None);
            Err(fault)
        }
    }
}
