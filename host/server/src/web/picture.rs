//! Logos from PNG files that others made.

use std::io::Cursor;

use kassette_domain::brand::{Logo, TooLarge};
use png::{Compression, Decoder, DecodingError, EncodingError, Limits, Transformations};
use thiserror::Error;

/// Maximum memory for decoding, in bytes.
const MEMORY: usize = 4 << 20;

/// Reason why a file is not a logo.
#[derive(Debug, Error)]
pub(crate) enum NotALogo {
    #[error("must be a PNG file: {0}")]
    NotPng(#[from] DecodingError),
    #[error("must be at most {side} pixels high and wide", side = Logo::SIDE)]
    TooManyPixels,
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("cannot be written as a PNG file: {0}")]
    NotWritten(#[from] EncodingError),
}

/// Decodes a PNG file and encodes its first picture again, so that only pixels reach a payer's browser.
///
/// # Errors
/// The first rule that the file violates.
pub(crate) fn logo(file: Vec<u8>) -> Result<Logo, NotALogo> {
    let mut decoder = Decoder::new_with_limits(Cursor::new(file), Limits { bytes: MEMORY });
    decoder.set_transformations(Transformations::STRIP_16);
    let mut reader = decoder.read_info()?;
    let (width, height) = reader.info().size();
    if width.max(height) > Logo::SIDE {
        return Err(NotALogo::TooManyPixels);
    }
    let size = reader.output_buffer_size().ok_or(NotALogo::TooManyPixels)?;
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
