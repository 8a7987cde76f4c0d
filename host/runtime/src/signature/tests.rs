use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;

use super::*;

/// A component with custom sections only.
fn component() -> Vec<u8> {
    let mut file = b"\0asm\x0d\0\x01\0".to_vec();
    for (name, data) in [("one", "first"), ("two", "second"), ("three", "third")] {
        let mut section = vec![name.len() as u8];
        section.extend(name.bytes().chain(data.bytes()));
        file.extend([0, section.len() as u8]);
        file.extend(section);
    }
    file
}

fn key() -> SecretKey {
    SecretKey::draw().unwrap()
}

/// A key that is not configured.
fn stranger_key() -> SecretKey {
    key()
}

fn slot(text: &str) -> Slot {
    Slot::parse(text).unwrap()
}

fn ideal() -> Slot {
    slot("method.ideal")
}

fn for_slots(slots: &str, key: &SecretKey) -> SlotKey {
    SlotKey {
        slots: slots.parse().unwrap(),
        public_key: key.public_key(),
    }
}

/// Checks a file for a slot with this key.
fn judged(file: &[u8], key: &SecretKey) -> Result<(), SignatureError> {
    check(&[for_slots("method.ideal", key)], &ideal(), file)
}

fn theirs(key: &SecretKey) -> (wasmsign2::SecretKey, wasmsign2::PublicKey) {
    (
        wasmsign2::SecretKey::from_bytes(key.as_bytes()).unwrap(),
        wasmsign2::PublicKey::from_bytes(&key.public_key().to_bytes()).unwrap(),
    )
}

fn read(file: &[u8]) -> wasmsign2::Module {
    wasmsign2::Module::deserialize(&mut &*file).unwrap()
}

fn written(module: &wasmsign2::Module) -> Vec<u8> {
    let mut file = Vec::new();
    module.serialize(&mut file).unwrap();
    file
}

#[test]
fn a_signed_file_is_taken_for_the_slots_of_its_key_alone() {
    let (release, stripe) = (key(), key());
    let keys = [
        for_slots("method.*", &release),
        for_slots("provider.stripe", &stripe),
    ];
    let signed = sign(&component(), &release).unwrap();
    assert_eq!(check(&keys, &ideal(), &signed), Ok(()));
    assert_eq!(check(&keys, &slot("method.blik"), &signed), Ok(()));
    let refused = check(&keys, &slot("provider.stripe"), &signed);
    let other = SignatureError::OtherSlot {
        slot: slot("provider.stripe"),
        pattern: "method.*".parse().unwrap(),
    };
    assert_eq!(refused, Err(other));
    // A slot without a key needs no signature.
    assert_eq!(check(&keys, &slot("provider.mollie"), &component()), Ok(()));
    assert_eq!(check(&[], &ideal(), &component()), Ok(()));
}

#[test]
fn a_slot_takes_what_any_of_its_keys_signed() {
    let (old, new) = (key(), key());
    let keys = [for_slots("method.ideal", &old), for_slots("*", &new)];
    for key in [&old, &new] {
        let signed = sign(&component(), key).unwrap();
        assert_eq!(check(&keys, &ideal(), &signed), Ok(()));
    }
}

#[test]
fn what_is_not_signed_by_a_key_of_the_slot_is_refused() {
    let key = key();
    let unsigned = judged(&component(), &key);
    assert_eq!(unsigned, Err(SignatureError::Unsigned(ideal())));
    let stranger = sign(&component(), &stranger_key()).unwrap();
    let refused = judged(&stranger, &key);
    assert_eq!(refused, Err(SignatureError::UnknownKey(ideal())));
    let core = judged(b"\0asm\x01\0\0\0", &key);
    assert_eq!(core, Err(SignatureError::NotComponent));
}

#[test]
fn what_was_changed_or_cut_off_after_it_was_signed_is_refused() {
    let key = key();
    let signed = sign(&component(), &key).unwrap();
    let end = signed.len();
    for cut in end - component().len() + 8..end {
        let refused = judged(&signed[..cut], &key);
        assert_eq!(refused, Err(SignatureError::Altered), "cut at {cut}");
    }
    let added = [&signed[..], b"\0\x04\x03new"].concat();
    assert_eq!(judged(&added, &key), Err(SignatureError::Altered));
    let mut changed = signed;
    changed[end - 1] ^= 1;
    assert_eq!(judged(&changed, &key), Err(SignatureError::Altered));
}

#[test]
fn a_signature_behind_another_section_is_none() {
    let key = key();
    let signed = sign(&component(), &key).unwrap();
    let section = &signed[8..signed.len() - component().len() + 8];
    let mut moved = component();
    moved.extend_from_slice(section);
    let refused = judged(&moved, &key);
    assert_eq!(refused, Err(SignatureError::Unsigned(ideal())));
    // It is ordinary content if the file is signed with it.
    let own = sign(&moved, &key).unwrap();
    assert_eq!(judged(&own, &key), Ok(()));
}

#[test]
fn a_file_can_be_signed_by_several_and_by_each_once() {
    let (one, two) = (key(), key());
    let signed = sign(&component(), &one).unwrap();
    assert_eq!(sign(&signed, &one).unwrap(), signed);
    let both = sign(&signed, &two).unwrap();
    for key in [&one, &two] {
        assert_eq!(judged(&both, key), Ok(()));
        let (_, public) = theirs(key);
        public.verify(&mut &*both, None).unwrap();
    }
    // Signing a changed file removes the old signatures.
    let changed = [&both[..], b"\0\x04\x03new"].concat();
    let anew = sign(&changed, &one).unwrap();
    assert_eq!(judged(&anew, &one), Ok(()));
    assert_eq!(
        judged(&anew, &two),
        Err(SignatureError::UnknownKey(ideal()))
    );
}

#[test]
fn other_tools_verify_what_is_signed_here() {
    let key = key();
    let signed = sign(&component(), &key).unwrap();
    let (_, public) = theirs(&key);
    public.verify(&mut &*signed, None).unwrap();
    // They also refuse it after a change.
    let changed = [&signed[..], b"\0\x04\x03new"].concat();
    public.verify(&mut &*changed, None).unwrap_err();
}

#[test]
fn what_other_tools_sign_is_taken_here() {
    let pair = wasmsign2::KeyPair::generate();
    let key = SecretKey::from_bytes(&pair.sk.to_bytes()).unwrap();
    assert_eq!(key.public_key().to_bytes(), pair.pk.to_bytes());
    let id = b"release".to_vec();
    for id in [None, Some(&id)] {
        let signed = written(&pair.sk.sign(read(&component()), id).unwrap());
        assert_eq!(judged(&signed, &key), Ok(()));
        // In addition to our signature, and with delimiters at which it could be cut.
        let ours = sign(&component(), &stranger_key()).unwrap();
        for allow_extensions in [false, true] {
            let multi = pair.sk.sign_multi(read(&ours), id, false, allow_extensions);
            assert_eq!(judged(&written(&multi.unwrap().0), &key), Ok(()));
        }
    }
}

/// A key file with a seed of 32 bytes of 07.
const KEY_FILE: &str = "\
    810707070707070707070707070707070707070707070707070707070707070707ea4a6c63e29c520abef5507b132ec5f9954776\
    aebebe7b92421eea691446d22c";
/// The section that `SecretKey::sign` of wsc-verify-core 0.12.0 writes for this component with the key id
/// "release".
const BY_WSC: &str = "\
    007d097369676e6174757265010101016e01eb72ee263605dcf1b4fc4834c9bf691334faeb39466124b19caab469685c7310014b\
    0772656c656173650140480c032ba41ed149ae71962cf5c15c5c5ad53bf5abe208aa0a22f9807f914ad2fc8931aa79c32b983102\
    ca2904eff9f845700901c965a45b2ba92051d4645e0600";
/// The section that is written here. The `PublicKey::verify` of wsc accepted it on 2026-11-26.
const TAKEN_BY_WSC: &str = "\
    0075097369676e6174757265010101016601eb72ee263605dcf1b4fc4834c9bf691334faeb39466124b19caab469685c73100143\
    000140480c032ba41ed149ae71962cf5c15c5c5ad53bf5abe208aa0a22f9807f914ad2fc8931aa79c32b983102ca2904eff9f845\
    700901c965a45b2ba92051d4645e06";

#[test]
fn what_wsc_signs_is_taken_and_what_it_took_is_still_what_is_written() {
    let bytes = |text: &str| hex::decode(text).unwrap();
    let key = SecretKey::from_bytes(&bytes(KEY_FILE)).unwrap();
    let with = |section: &str| {
        let component = component();
        let (preamble, rest) = component.split_at(8);
        [preamble, &bytes(section), rest].concat()
    };
    assert_eq!(sign(&component(), &key).unwrap(), with(TAKEN_BY_WSC));
    let signed = with(BY_WSC);
    assert_eq!(judged(&signed, &key), Ok(()));
    // Its entry is longer than ours and remains unchanged next to another.
    let both = sign(&signed, &stranger_key()).unwrap();
    assert_eq!(judged(&both, &key), Ok(()));
}

#[test]
fn a_file_that_is_cut_at_a_delimiter_is_refused() {
    let key = key();
    let (secret, public) = theirs(&key);
    // A delimiter after the first of three sections, and one at the end.
    let first = |section: &wasmsign2::Section| format!("{section}").contains("one");
    let split = read(&component()).split(first).unwrap();
    let (mut module, _) = secret.sign_multi(split, None, false, false).unwrap();
    assert_eq!(judged(&written(&module), &key), Ok(()));
    let is_delimiter = |section: &wasmsign2::Section| section.is_signature_delimiter();
    let first = module.sections.iter().position(is_delimiter).unwrap();
    assert!(first + 1 < module.sections.len());
    module.sections.truncate(first + 1);
    let cut = written(&module);
    // The reason why their code is not used.
    public.verify(&mut &*cut, None).unwrap();
    assert_eq!(judged(&cut, &key), Err(SignatureError::Altered));
}

/// A file with this content of the signature section.
fn crafted(data: &[u8]) -> Vec<u8> {
    let mut section = vec![9];
    section.extend_from_slice(b"signature");
    section.extend_from_slice(data);
    let mut file = component();
    let length = [
        (section.len() & 0x7f) as u8 | 0x80,
        (section.len() >> 7) as u8,
    ];
    let head = [&[0], &length[..], &section].concat();
    file.splice(8..8, head);
    file
}

#[test]
fn sections_that_break_the_format_are_refused() {
    let key = key();
    let unreadable: [&[u8]; 12] = [
        b"",
        b"\x01\x01",
        // Another specification, content type and hash.
        b"\x02\x01\x01\x00",
        b"\x01\x02\x01\x00",
        b"\x01\x01\x02\x00",
        // Bytes after the end.
        b"\x01\x01\x01\x00\x00",
        // Counts and lengths beyond the end, or numbers without an end.
        b"\x01\x01\x01\x01",
        b"\x01\x01\x01\x01\xff\xff\xff\xff\x0f",
        b"\x01\x01\x01\xff\xff\xff\xff\x0f",
        b"\x01\x01\x01\xff\xff\xff\xff\xff\xff",
        b"\x01\x01\x01\x01\x02\x40\x00",
        b"\x01\x01\x01\x01\x06\x00\xff\xff\xff\xff\x0f",
    ];
    for data in unreadable {
        let refused = judged(&crafted(data), &key);
        assert_eq!(refused, Err(SignatureError::Unreadable), "{data:?}");
        assert_eq!(sign(&crafted(data), &key), Err(SignatureError::Unreadable));
    }
    let nothing = judged(&crafted(b"\x01\x01\x01\x00"), &key);
    assert_eq!(nothing, Err(SignatureError::Altered));
    // More signatures than the limit, so that trying them takes no time.
    let list = [b"\x83\x02\x00\x80\x02".as_slice(), &[0; 256]].concat();
    let lists = |count: u8| [&[1, 1, 1, count], list.repeat(count.into()).as_slice()].concat();
    assert_eq!(
        judged(&crafted(&lists(1)), &key),
        Err(SignatureError::Altered)
    );
    assert_eq!(
        judged(&crafted(&lists(2)), &key),
        Err(SignatureError::Unreadable)
    );
}

/// Flips every bit, omits, doubles or maximizes every byte, and cuts at every position: none of this makes other
/// content accepted.
#[test]
fn no_mutation_of_a_signed_file_brings_other_content_in() {
    let (one, two) = (key(), key());
    let signed = sign(&sign(&component(), &one).unwrap(), &two).unwrap();
    let content = &component()[8..];
    let mut taken = 0;
    let mut look = |mutated: &[u8]| {
        if judged(mutated, &one).is_ok() {
            taken += 1;
            assert!(mutated.ends_with(content) && mutated.starts_with(&signed[..8]));
            assert_eq!(Parts::split(mutated).unwrap().content, content);
        }
        let _ = sign(mutated, &one);
    };
    for at in 0..signed.len() {
        look(&signed[..at]);
        for bit in 0..8 {
            let mut mutated = signed.clone();
            mutated[at] ^= 1 << bit;
            look(&mutated);
        }
        let mut mutated = signed.clone();
        mutated[at] = 0xff;
        look(&mutated);
        mutated.remove(at);
        look(&mutated);
        let mut mutated = signed.clone();
        mutated.insert(at, mutated[at]);
        look(&mutated);
    }
    // The second signature is not checked, so changes in it are allowed.
    assert!(taken > 0, "the second signature plays no part");
}

#[test]
fn keys_are_read_from_what_the_tools_write_and_from_nothing_else() {
    let key = key();
    let public = key.public_key();
    assert_eq!(public.to_string().parse(), Ok(public.clone()));
    let again = SecretKey::from_bytes(key.as_bytes()).unwrap();
    assert_eq!(again.public_key(), public);
    assert!(!format!("{key:?}").contains(&format!("{:?}", key.as_bytes())));
    for text in ["", "AQ==", "no base64", &BASE64.encode(key.as_bytes())] {
        assert_eq!(
            text.parse::<PublicKey>(),
            Err(KeyError::NotPublic),
            "{text}"
        );
    }
    // A public key, half a secret key, and two halves of different pairs.
    let mut mixed = key.as_bytes().to_vec();
    mixed[64] ^= 1;
    for bytes in [&public.to_bytes()[..], &key.as_bytes()[..33], &mixed, b""] {
        let refused = SecretKey::from_bytes(bytes);
        assert_eq!(refused.err(), Some(KeyError::NotSecret));
    }
}

#[test]
fn a_pattern_is_a_slot_or_the_beginning_of_some() {
    let pattern = |text: &str| text.parse::<SlotPattern>();
    for (text, matches, others) in [
        ("*", "provider.stripe", None),
        ("method.*", "method.ideal", Some("provider.ideal")),
        ("provider.pay*", "provider.paypal", Some("provider.stripe")),
        ("method.ideal", "method.ideal", Some("method.ideal2")),
    ] {
        let pattern = pattern(text).unwrap();
        assert!(pattern.matches(&slot(matches)), "{text}");
        assert!(
            !others.is_some_and(|other| pattern.matches(&slot(other))),
            "{text}"
        );
    }
    for text in [
        "",
        "method",
        "method*",
        "ideal",
        "meth*",
        "*.ideal",
        "method.I*",
        "method.*.*",
    ] {
        assert_eq!(pattern(text), Err(KeyError::NotSlots), "{text}");
    }
}
