//! Groups of countries that several schemes serve, as ISO 3166-1 alpha-2 codes.

/// The European Economic Area and the United Kingdom, which kept its payment law.
pub const EEA_AND_UK: [&str; 31] = [
    "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GB", "GR", "HR", "HU", "IE",
    "IS", "IT", "LI", "LT", "LU", "LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK",
];
