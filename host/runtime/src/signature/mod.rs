//! Signed modules: the signatures that a slot's files need before they are compiled.
//!
//! The format is <https://github.com/wasm-signatures/design>, as written by the tools `wasmsign2` and `wsc`:
//! ed25519 signatures over SHA-256, in a custom section `signature` at the start of the file.
//!
//! Recorded on 2026-11-26. wasmsign2 0.2.8 and wsc 0.12 sign components like core modules, so their format is used
//! unchanged. Their code is not used:
//! - wasmsign2 accepts a file that was cut off at a section `signature_delimiter` after signing, because it
//!   accepts any of the signed hashes. Here, as in wsc, only the last hash counts, which covers the whole file.
//! - Both allocate as much memory as a length in the file specifies, wsc up to 256 MiB, before they check that the
//!   data exists.
//! - Each adds a second implementation of ed25519 and SHA-256 to those of ring and sha2.
//!
//! Tests verify output of [`sign`] with wasmsign2 and signatures of wasmsign2 here. For wsc they use recorded
//! bytes.

mod keys;
mod section;

use kassette_domain::id::{Digest, Slot};
use serde::Deserialize;

pub use self::keys::{KeyError, PublicKey, SecretKey, SlotPattern};
use self::section::{Hashes, Parts};

/// A key and the slots whose modules it may sign. A slot with at least one key accepts only signed modules.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotKey {
    /// Slots that the key is for.
    pub slots: SlotPattern,
    /// Key that verifies the signatures.
    pub public_key: PublicKey,
}

/// Reason why a file is refused or cannot be signed. Messages say how to correct it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The file does not start with a signature section.
    #[error(
        "{0} takes signed modules alone, and the file has no signature in its first section; sign it with `kassette plugin sign` and a key that plugins.keys names for {0}"
    )]
    Unsigned(Slot),
    /// The signatures are for other content.
    #[error(
        "the file is not what was signed: it was changed or cut off afterwards; fetch it anew from where it was signed, or sign it with `kassette plugin sign`"
    )]
    Altered,
    /// The signatures are from keys that are not configured.
    #[error(
        "the file is signed by none of the keys that plugins.keys names for {0}; sign it with `kassette plugin sign` and one of them"
    )]
    UnknownKey(Slot),
    /// The file is signed with a key for other slots.
    #[error(
        "the file is signed by a key that plugins.keys names for {pattern} and not for {slot}; sign it with `kassette plugin sign` and a key for {slot}"
    )]
    OtherSlot {
        /// Slot that the file was offered to.
        slot: Slot,
        /// Slots that the key is for.
        pattern: SlotPattern,
    },
    /// The first section is named `signature` but is malformed.
    #[error(
        "the file's signature section cannot be read; take the module as it was built, and sign that"
    )]
    Unreadable,
    /// The file does not start like a component.
    #[error("the file is not a component; `kassette plugin check` says what it is")]
    NotComponent,
}

/// Checks that a component may be compiled for a slot: its whole content is signed with a key for the slot, or the
/// slot has no key.
pub(crate) fn check(keys: &[SlotKey], slot: &Slot, file: &[u8]) -> Result<(), SignatureError> {
    let (own, others): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.slots.matches(slot));
    if own.is_empty() {
        return Ok(());
    }
    let parts = Parts::split(file).ok_or(SignatureError::NotComponent)?;
    let data = parts.signatures;
    let lists = section::read(data.ok_or_else(|| SignatureError::Unsigned(slot.clone()))?);
    let mut lists = lists.ok_or(SignatureError::Unreadable)?;
    let whole = Digest::hash(parts.content);
    lists.retain(|list| list.is_of(&whole));
    if lists.is_empty() {
        return Err(SignatureError::Altered);
    }
    let signed = |key: &SlotKey| {
        let by = |list: &Hashes<'_>| {
            let message = list.message();
            let mut signatures = list.signatures.iter();
            signatures.any(|entry| {
                section::of_entry(entry)
                    .is_some_and(|signature| key.public_key.verifies(&message, signature))
            })
        };
        lists.iter().any(by)
    };
    if own.into_iter().any(signed) {
        return Ok(());
    }
    Err(match others.into_iter().find(|key| signed(key)) {
        Some(key) => SignatureError::OtherSlot {
            slot: slot.clone(),
            pattern: key.slots.clone(),
        },
        None => SignatureError::UnknownKey(slot.clone()),
    })
}

/// Signs a component. Returns the file with a signature in its first section. Keeps other signatures of the same
/// content and removes those of other content. Signing again with the same key changes nothing.
///
/// # Errors [`SignatureError::NotComponent`] and [`SignatureError::Unreadable`].
pub fn sign(file: &[u8], key: &SecretKey) -> Result<Vec<u8>, SignatureError> {
    let parts = Parts::split(file).ok_or(SignatureError::NotComponent)?;
    let mut lists = match parts.signatures {
        Some(data) => section::read(data).ok_or(SignatureError::Unreadable)?,
        None => Vec::new(),
    };
    let whole = Digest::hash(parts.content);
    lists.retain(|list| list.is_of(&whole));
    let new = Hashes::only(&whole);
    let entry = section::entry(&key.sign(&new.message()));
    let at = lists.iter().position(|list| list.hashes == new.hashes);
    let at = at.unwrap_or_else(|| {
        lists.push(new);
        lists.len() - 1
    });
    if let Some(list) = lists.get_mut(at)
        && !list.signatures.contains(&entry.as_slice())
    {
        list.signatures.push(&entry);
    }
    Ok(section::write(&lists, parts.content))
}

#[cfg(test)]
mod tests;
