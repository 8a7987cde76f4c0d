//! The appearance of a merchant's pages as JSON, and its logo as a file.

use std::collections::BTreeSet;
use std::io::Cursor;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kassette_domain::brand::{Brand, Colour, Logo, Support, TooLarge};
use png::{Compression, Decoder, DecodingError, EncodingError, Limits, Transformations};
use serde_json::json;
use thiserror::Error;

use crate::web::json::{Fields, Invalid, Value, Wrong, text};
use crate::web::text::switch;

/// Merges a brand into `old`: absent fields are unchanged, `null` resets a field (RFC 7396).
pub(super) fn merge(value: Value, old: &Brand) -> Result<Brand, Wrong> {
    read(value, old).map_err(Wrong::new)
}

fn read(value: Value, old: &Brand) -> Result<Brand, Invalid> {
    let names: BTreeSet<String> = match &value {
        Value::Object(object) => object.keys().cloned().collect(),
        _ => BTreeSet::new(),
    };
    let mut fields = Fields::read(value)?;
    let mut brand = old.clone();
    if names.contains("colour") {
        brand.colour = fields.optional("colour", text(str::parse::<Colour>))?;
    }
    if names.contains("logo") {
        brand.logo = fields.optional("logo", text(logo))?;
    }
    if names.contains("show_provider") {
        let shows = fields.optional("show_provider", switch)?;
        brand.shows_provider = shows.unwrap_or_default();
    }
    if names.contains("support") {
        brand.support = fields.optional("support", text(str::parse::<Support>))?;
    }
    fields.finish()?;
    Ok(brand)
}

/// A brand for operators. The logo is represented by its digest, so that audit entries contain no file.
pub(super) fn view(brand: &Brand) -> serde_json::Value {
    json!({
        "colour": brand.colour.map(|colour| colour.to_string()),
        "logo": brand.logo.as_ref().map(|logo| logo.digest().to_string()),
        "show_provider": brand.shows_provider,
        "support": brand.support,
    })
}

/// Reason why a text is not a logo.
#[derive(Debug, Error)]
enum NoLogo {
    #[error("must be a PNG file in base64 (RFC 4648, 4)")]
    NotBase64,
    #[error("must be a PNG file: {0}")]
    NotPng(#[from] DecodingError),
    #[error("must be at most {side} pixels high and wide", side = Logo::SIDE)]
    TooManyPixels,
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("cannot be written as a PNG file: {0}")]
    NotWritten(#[from] EncodingError),
}

/// Decodes a base64 PNG file and encodes its first picture again, so that only pixels reach a payer's browser.
fn logo(text: &str) -> Result<Logo, NoLogo> {
    /// Maximum memory for decoding, in bytes.
    const MEMORY: usize = 4 << 20;
    let file = BASE64_STANDARD
        .decode(text)
        .map_err(|_| NoLogo::NotBase64)?;
    let mut decoder = Decoder::new_with_limits(Cursor::new(file), Limits { bytes: MEMORY });
    decoder.set_transformations(Transformations::STRIP_16);
    let mut reader = decoder.read_info()?;
    let (width, height) = reader.info().size();
    if width.max(height) > Logo::SIDE {
        return Err(NoLogo::TooManyPixels);
    }
    let size = reader.output_buffer_size().ok_or(NoLogo::TooManyPixels)?;
    let mut pixels = vec![0; size];
    let frame = reader.next_frame(&mut pixels)?;
    pixels.truncate(frame.buffer_size());
    let mut written = Vec::new();
    let mut encoder = png::Encoder::new(&mut written, frame.width, frame.height);
    encoder.set_color(frame.color_type);
    encoder.set_depth(frame.bit_depth);
    encoder.set_compression(Compression::High);
    if let Some(palette) = &reader.info().palette {
        encoder.set_palette(palette.clone());
    }
    if let Some(transparency) = &reader.info().trns {
        encoder.set_trns(transparency.clone());
    }
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(written.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::json::parse;
    use sha2::{Digest as _, Sha256};

    /// A single-color file with a text chunk.
    fn file(width: u32, height: u32) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Indexed);
        encoder.set_palette(vec![0x12, 0x45, 0x3a]);
        encoder.set_trns(vec![0x80]);
        encoder
            .add_text_chunk("Comment".into(), "<script>".into())
            .unwrap();
        let pixels = vec![0; (width * height) as usize];
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&pixels).unwrap();
        writer.finish().unwrap();
        file
    }

    fn base64(file: &[u8]) -> String {
        BASE64_STANDARD.encode(file)
    }

    fn merged(body: &str, old: &Brand) -> Result<Brand, String> {
        merge(parse(body.as_bytes()).unwrap(), old).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn of_a_logo_its_pixels_are_kept_and_nothing_else() {
        let original = file(32, 16);
        assert!(original.windows(8).any(|part| part == b"<script>"));
        let mut trailing = original.clone();
        trailing.extend(b"<html>");
        for given in [original, trailing] {
            let kept = logo(&base64(&given)).unwrap();
            for hidden in [&b"<script>"[..], b"<html>", b"tEXt"] {
                assert!(!kept.png().windows(hidden.len()).any(|part| part == hidden));
            }
            let mut decoder = Decoder::new(Cursor::new(kept.png().to_vec()));
            decoder.set_transformations(Transformations::normalize_to_color8());
            let mut reader = decoder.read_info().unwrap();
            let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
            let frame = reader.next_frame(&mut pixels).unwrap();
            assert_eq!((frame.width, frame.height), (32, 16));
            assert_eq!(pixels, [0x12, 0x45, 0x3a, 0x80].repeat(32 * 16));
        }
    }

    #[test]
    fn what_is_no_small_png_file_is_no_logo() {
        let noise: Vec<u8> = (0..128 * 128 * 3 / 32_u32)
            .flat_map(|i| Sha256::digest(i.to_le_bytes()))
            .collect();
        let mut large = Vec::new();
        let mut encoder = png::Encoder::new(&mut large, 128, 128);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&noise).unwrap();
        writer.finish().unwrap();
        let mut cut = file(32, 16);
        cut.truncate(60);
        for (given, expected) in [
            ("no base64".to_owned(), "must be a PNG file in base64"),
            (base64(b"<svg/>"), "must be a PNG file: "),
            (base64(&cut), "must be a PNG file: "),
            (base64(&file(321, 1)), "must be at most 320 pixels"),
            (base64(&file(1, 321)), "must be at most 320 pixels"),
            (base64(&large), "must be at most 8192 bytes"),
        ] {
            let said = logo(&given).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said}");
        }
        assert!(logo(&base64(&file(320, 320))).is_ok());
    }

    #[test]
    fn what_is_absent_stays_and_null_resets() {
        let whole = format!(
            r##"{{"colour":"#AA0000","logo":"{}","show_provider":true,"support":"help@shop.example"}}"##,
            base64(&file(8, 8))
        );
        let whole = merged(&whole, &Brand::default()).unwrap();
        assert_eq!(view(&whole)["colour"], "#aa0000");
        assert_eq!(merged("{}", &whole).unwrap(), whole);
        let other = merged(r##"{"colour":"#00aa00"}"##, &whole).unwrap();
        let brand = |brand: &Brand| {
            (
                brand.logo.clone(),
                brand.shows_provider,
                brand.support.clone(),
            )
        };
        assert_eq!(brand(&other), brand(&whole));
        assert_eq!(view(&other)["support"], "help@shop.example");
        let reset = r#"{"colour":null,"logo":null,"show_provider":null,"support":null}"#;
        assert_eq!(merged(reset, &whole).unwrap(), Brand::default());
        for wrong in [
            r#"{"colour":"red"}"#,
            r##"{"color":"#00aa00"}"##,
            r#"{"show_provider":"no"}"#,
            r#"{"support":"help"}"#,
            r#"{"support":"http://shop.example/help"}"#,
            r#"{"support":"javascript:alert(1)"}"#,
            r#"{"logo":7}"#,
            "[]",
        ] {
            assert!(merged(wrong, &whole).is_err(), "{wrong}");
        }
    }
}
