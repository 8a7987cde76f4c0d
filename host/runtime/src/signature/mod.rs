//! Signed modules: whose signature a slot's files need before they are compiled.
//!
//! The format is that of <https://github.com/wasm-signatures/design>, as the tools `wasmsign2` and `wsc` write it:
//! ed25519 signatures over SHA-256, in a custom section `signature` that is the file's first.
//!
//! Recorded on 2026-11-26. wasmsign2 0.2.8 and wsc 0.12 sign components as they sign core modules, so the format is
//! theirs unchanged. Their code is not built in:
//! - wasmsign2 believes a file that was cut off at a section `signature_delimiter` after it was signed, since any of
//!   the signed hashes will do. Here, as in wsc, the last one counts, which is that of the whole file.
//! - Both reserve as much memory as a length in the file says, wsc up to 256 MiB, before they look whether it is there.
//! - Either brings a second ed25519 and SHA-256 beside those of ring and sha2, which are built in already.
//!
//! Tests verify with wasmsign2 what [`sign`] writes and here what it signs; of wsc they have recorded bytes.

mod keys;
mod section;

use kassette_domain::id::{Digest, Slot};
use serde::Deserialize;

pub use self::keys::{KeyError, PublicKey, SecretKey, SlotPattern};
use self::section::{Hashes, Parts};

/// A key, and the slots whose modules it may sign. A slot that any such key is for takes signed modules alone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotKey {
    /// For which slots it counts.
    pub slots: SlotPattern,
    /// Who signs for them.
    pub public_key: PublicKey,
}

/// Why a file is not believed, or cannot be signed. Each says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// It begins with no signature.
    #[error(
        "{0} takes signed modules alone, and the file has no signature in its first section; sign it with `kassette plugin sign` and a key that plugins.keys names for {0}"
    )]
    Unsigned(Slot),
    /// Its signatures are over other bytes.
    #[error(
        "the file is not what was signed: it was changed or cut off afterwards; fetch it anew from where it was signed, or sign it with `kassette plugin sign`"
    )]
    Altered,
    /// None of its signatures is by a key that is configured.
    #[error(
        "the file is signed by none of the keys that plugins.keys names for {0}; sign it with `kassette plugin sign` and one of them"
    )]
    UnknownKey(Slot),
    /// It is signed by a key that does not count for its slot.
    #[error(
        "the file is signed by a key that plugins.keys names for {pattern} and not for {slot}; sign it with `kassette plugin sign` and a key for {slot}"
    )]
    OtherSlot {
        /// The slot that it was offered to.
        slot: Slot,
        /// The slots that its key is for.
        pattern: SlotPattern,
    },
    /// Its first section is called `signature` and is none.
    #[error(
        "the file's signature section cannot be read; take the module as it was built, and sign that"
    )]
    Unreadable,
    /// It does not begin as a component does.
    #[error("the file is not a component; `kassette plugin check` says what it is")]
    NotComponent,
}

/// Whether a component may be compiled for a slot: it is signed as a whole by a key for that slot, or none is needed.
pub(crate) fn check(keys: &[SlotKey], slot: &Slot, file: &[u8]) -> Result<(), SignatureError> {
    let (own, others): (Vec<_>, Vec<_>) = keys.iter().partition(|key| key.slots.matches(slot));
    if own.is_empty() {
        return Ok(());
    }
    let parts = Parts::of(file).ok_or(SignatureError::NotComponent)?;
    let data = parts.signatures;
    let lists = section::read(data.ok_or_else(|| SignatureError::Unsigned(slot.clone()))?);
    let mut lists = lists.ok_or(SignatureError::Unreadable)?;
    let whole = Digest::of(parts.content);
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

/// Signs a component: the file with a signature in its first section, beside those that are there of the same bytes.
/// Signatures of what the file was before go. The same key again changes nothing.
///
/// # Errors
/// [`SignatureError::NotComponent`] and [`SignatureError::Unreadable`].
pub fn sign(file: &[u8], key: &SecretKey) -> Result<Vec<u8>, SignatureError> {
    let parts = Parts::of(file).ok_or(SignatureError::NotComponent)?;
    let mut lists = match parts.signatures {
        Some(data) => section::read(data).ok_or(SignatureError::Unreadable)?,
        None => Vec::new(),
    };
    let whole = Digest::of(parts.content);
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
