# Det betalere leser, på bokmål.

## Rundt hver side

test-banner = TEST
test-banner-text = Dette er en testbetaling. Ingen ekte penger flyttes.
footer-reassurance = Kort- og bankopplysninger oppgir du bare hos betalingsleverandøren. De når aldri denne siden.
footer-brand = Betalingsside fra Kassette
opens-new-tab = (åpnes i en ny fane)
language-menu = Språk
summary-pay = Du betaler til { $merchant }
summary-paid = Du har betalt til { $merchant }
summary-about = Betaling til { $merchant }
summary-order = Bestilling
support = Spørsmål om bestillingen?

## Valget

choose-title = Betal { $amount } til { $merchant }
choose-heading = Hvordan vil du betale?
choose-heading-again = Hvordan vil du betale nå?
choose-hint = Du betaler ikke noe ved å velge. Du fullfører betalingen i de neste stegene.
choose-with = Fortsett med { $method }
choose-declined = Det siste forsøket ditt ble avvist.
choose-down = Tilbys ikke på omtrent et minutt, fordi { $provider } ikke svarer.
choose-via = via { $provider }
choose-more = Mer om { $provider }
changed-title = Se en gang til
changed-text = { $method } vil nå gå via { $provider } på vilkårene nedenfor. Fortsett hvis det er greit for deg.
changed-continue = Fortsett med { $provider }
changed-other = Se alle betalingsmåter

## Videre til leverandøren

going-title = Vi sender deg til { $provider } …
going-text = Der betaler du { $amount }, og deretter kommer du tilbake hit.
go-text-stuck = Bruk knappen hvis ingenting skjer.
go-link = Fortsett til { $provider }
open-title = Betalingen din venter
open-text = Du har valgt { $method } med { $provider }. Fortsett der for å betale.
post-title = Videre til { $provider }
post-text = Betalingen din er klargjort. Knappen tar deg til { $provider }, der du bekrefter den.
another-way = Velg en annen betalingsmåte
another-way-hint = Vi avslutter først betalingen hos { $provider }, slik at du aldri betaler to ganger.
lapsed-title = Dette tok litt for lang tid
lapsed-text = Tiden for å betale med { $provider } er ute. Har du allerede betalt, må du ikke betale på nytt: Denne siden viser betalingen så snart den er meldt.

## Spørsmål

questions-title = Noen opplysninger til { $provider }
questions-text = { $provider } trenger dette for å ta imot betalingen din. Vi gir det bare videre for denne betalingen.
questions-submit = Fortsett
question-optional = valgfritt
question-choose = Velg
question-email = E-postadresse
question-phone = Telefonnummer
question-given-name = Fornavn
question-family-name = Etternavn
error-summary = Kontroller de merkede svarene.
error-required = Fyll ut dette feltet.
error-email = Skriv inn en e-postadresse, for eksempel navn@example.org.
error-phone = Skriv inn et telefonnummer med landkode, for eksempel +47 22 12 34 56.
error-length = Bruk høyst { $most } tegn.
error-choice = Velg et av alternativene.
error-characters = Bruk bare bokstaver, tall og vanlige skilletegn.
error-card = Ikke oppgi et kortnummer her.

## Veiledning

show-title = Betal med { $method }
show-details = Betalingsopplysninger
show-details-hint = Klikk eller trykk på en verdi for å merke hele.
copy = Kopier
show-qr = QR-kode for bank- eller lommebokappen din; den inneholder betalingsopplysningene på denne siden
show-link = Åpne appen
show-page = Åpne betalingssiden
show-left = Tid igjen til å betale: { $time }
show-paid = Jeg har betalt – sjekk nå

## Hvor en betaling står

completed-title = Betalingen er fullført
completed-text = Takk. Du har betalt { $amount } til { $merchant }.
completed-test = Dette var en test. Ingen er belastet.
receipt-date = Dato
receipt-method = Betalingsmåte
receipt-by = { $method }, med { $provider }
receipt-reference = Referanse
receipt-payee = Betalt til
receipt-paid = Betalt beløp
receipt-refunded = Betalt tilbake { $day }
receipt-rest = Betalt etter tilbakebetalinger
receipt-keep = Skriv ut siden eller lagre den som PDF for å beholde en kopi. Den bekrefter betalingen og er ikke en faktura.
completed-part-returned = Av dette er { $amount } betalt tilbake.
completed-disputed = Det er reist innsigelse mot denne betalingen hos betalingsleverandøren.
second-received = Det er også mottatt en annen betaling for denne bestillingen. Spør { $merchant } om den.
second-part-given-back = Det er også mottatt en annen betaling for denne bestillingen, og en del av den er betalt tilbake. Spør { $merchant } om resten.
second-given-back = Det er også mottatt en annen betaling for denne bestillingen, og den er betalt tilbake.
accepted-text = { $merchant } har godtatt denne betalingen som betalt.
returned-title = Pengene dine er betalt tilbake
returned-text = Du hadde betalt { $amount } til { $merchant }, og beløpet er betalt tilbake.
money-received = Men det er mottatt penger for den. Ikke betal på nytt, men spør { $merchant }.
money-part-given-back = Men det er mottatt penger for den, og en del er betalt tilbake. Ikke betal på nytt, men spør { $merchant } om resten.
money-given-back = Pengene som var mottatt for den, er betalt tilbake. Vil du fortsatt betale, kan du begynne på nytt hos { $merchant }.
money-unclear = Det er ikke sikkert om penger er trukket. Ikke betal på nytt, men spør { $merchant }.
processing-title = Betalingen din behandles
processing-text = Det tar som regel bare et øyeblikk. Du trenger ikke å gjøre noe.
verification-title = Venter på endelig bekreftelse
verification-text = Betalingen din er mottatt og blir bekreftet. Det kan ta litt tid. Du kan lukke denne siden; { $merchant } får beskjed.
verification-awaited = Vi venter på at { $provider } bekrefter betalingen din. Ikke betal på nytt. Du kan lukke denne siden; { $merchant } får beskjed.
review-title = Betalingen din blir kontrollert
review-text = En person ser på den før den gjennomføres. Ikke betal på nytt. { $merchant } får vite resultatet.
review-part-given-back = En del av pengene som ble mottatt, er betalt tilbake.
review-given-back = Pengene som ble mottatt, er betalt tilbake.
failed-title = Betalingen gikk ikke gjennom
failed-text = Ingen penger er trukket. Vil du prøve igjen, kan du starte en ny betaling hos { $merchant }.
cancelled-title = Betalingen ble avbrutt
cancelled-text = Ingen penger er trukket. Vil du fortsatt betale, kan du begynne på nytt hos { $merchant }.
expired-title = Betalingen er utløpt
expired-text = Den ble ikke betalt i tide, og ingen penger er trukket. Vil du fortsatt betale, kan du begynne på nytt hos { $merchant }.
expired-late = Betalte du like før, må du ikke betale på nytt, men spørre { $merchant }. En betaling som likevel kommer fram, blir kontrollert.
checking-title = Et øyeblikk
checking-text = { $provider } har ikke svart ennå. Vi finner ut av det før noe annet skjer, slik at du aldri betaler to ganger.
checking-retry = Spør igjen
waiting-title = Venter på { $provider }
waiting-text = Så snart { $provider } bekrefter betalingen, ser du det her. Ikke ferdig ennå? Du kan fortsette.
waiting-declined = Det siste forsøket med { $provider } ble avvist. Du kan prøve igjen der. En annen betalingsmåte kan velges når { $provider } melder at forsøket er over.
declined-title = Betalingen ble avvist
ended-title = Du har ikke betalt ennå
ended-text = Betalingen med { $provider } er avsluttet, og ingen penger er trukket.
try-again = Du kan prøve igjen eller velge en annen måte.
pay-in-shop = Vil du fortsatt betale, kan du begynne på nytt hos { $merchant }.
choose-again = Velg betalingsmåte
see-current = Se betalingen
direct-title = Fortsett i butikken
direct-text = Det er { $merchant } som starter denne betalingen. Gå tilbake til butikken og velg å betale der.
unavailable-title = Det er ikke mulig å betale akkurat nå
unavailable-text = Ingen betalingsmåte er tilgjengelig for dette beløpet akkurat nå. Prøv igjen senere, eller spør { $merchant }.
back-to-merchant = Tilbake til butikken
back-soon = Om noen sekunder kommer du automatisk tilbake til { $merchant }.
stay = Bli på denne siden
close-page = Du kan lukke denne siden nå.
updates-itself = Denne siden oppdaterer seg selv.
updates-pause = Sett på pause
updates-paused = Oppdateringen er satt på pause.
check-again = Sjekk igjen

## Meldinger etter et valg

notice-still-open = Betalingen hos { $provider } kunne ikke avsluttes med sikkerhet. Fortsett med den, eller prøv igjen om litt, slik at du aldri betaler to ganger.
notice-not-available = Den betalingsmåten er ikke lenger tilgjengelig.
choose-another = Velg en annen.
not-taken = Ingen penger er trukket for dette forsøket.
one-try-left = Du har ett forsøk igjen: Velg en betalingsmåte som sannsynligvis virker.
declined-funds = Betalingen ble avvist: Det var ikke nok penger.
advice-funds = Bruk et annet kort eller en annen betalingsmåte, eller spør banken om saldo og grense.
declined-expired = Betalingen ble avvist: Kortet er utløpt.
advice-expired = Bruk et annet kort, eller kontroller datoen du skrev inn.
declined-authentication = Banken din kunne ikke bekrefte at det er deg.
advice-authentication = Prøv igjen og bekreft i bankens app, eller velg en annen betalingsmåte.
declined-limit = Betalingen ble avvist: Beløpet er over en grense.
advice-limit = Be banken om å heve grensen, eller velg en annen betalingsmåte.
declined-bank = Betalingen ble avvist uten at det ble oppgitt en grunn.
advice-bank = Banken kan kanskje fortelle hvorfor. Bruk et annet kort, eller velg en annen betalingsmåte.
declined-cancelled = Du avbrøt betalingen.
declined-provider = { $provider } tok ikke imot betalingen.
down-title = { $provider } svarer ikke akkurat nå.
down-text = Betalingen ble ikke startet der, og ingen penger er trukket.
advice-down = Velg en annen måte, eller sjekk igjen om et minutt.
notice-forbidden = Betalinger til { $merchant } kan ikke startes akkurat nå.
notice-conflict = Det er ikke lenger mulig. Slik står betalingen din nå.
notice-unsettled = Leverandøren har ikke svart ennå. Vent et øyeblikk.
notice-choose = Velg en av betalingsmåtene.

## Når noe er galt

not-found-title = Vi kjenner ikke denne betalingslenken
not-found-text = Kontroller at adressen er fullstendig, eller gå tilbake til butikken og begynn på nytt der.
foreign-title = Bruk knappene på siden vår
foreign-text = Denne forespørselen kom ikke fra betalingssiden vår, så ingenting er gjort. Åpne betalingslenken på nytt og fortsett derfra.
too-large-title = Det var for mye tekst
too-large-text = Ingenting er gjort. Gå tilbake og gjør det du skrev, kortere.
unreadable-title = Dette kunne vi ikke lese
unreadable-text = Ingenting er gjort. Gå tilbake og prøv igjen.
failure-title = Noe gikk galt hos oss
failure-text = Vent et øyeblikk, og åpne betalingslenken på nytt. Ikke start en ny betaling i mellomtiden.
too-many-requests = For mange forespørsler fra nettverket ditt. Vent et øyeblikk, og åpne betalingslenken på nytt.
busy = Det er mange som betaler akkurat nå. Vent et øyeblikk, og åpne betalingslenken på nytt.
open-payment = Åpne betalingen

## Invitasjoner fra forhandlere

open-invitation = Åpne invitasjonen
no-invitation-title = Vi kjenner ikke denne invitasjonen
no-invitation-text = Kontroller at adressen er fullstendig, eller spør avsenderen.
invitation-foreign-text = Denne forespørselen kom ikke fra siden vår, så ingenting er gjort. Åpne invitasjonen på nytt og fortsett derfra.
invitation-title = { $reseller } vil gjerne ta imot betalinger for deg
invitation-text = Hvis du godtar, kan { $reseller } opprette betalinger for { $business } og sende kundene dine til betaling.
invitation-yours = Betalingene og pengene er dine: Dine egne innstillinger og grenser gjelder, og du får beskjed om hver betaling. Du kan trekke dette tilbake når som helst.
invitation-code = Samtykkekode
invitation-code-hint = Du får den av den som driver tjenesten, ikke av den som inviterer. Den begynner med km_, gjelder i 24 timer og virker én gang. Ikke gi den videre til noen.
invitation-accept = Godta
invitation-decline = Avslå
invitation-until = Du kan svare til og med { $date } (UTC).
invitation-footer = For å godta trengs samtykkekoden din. Med bare denne adressen kan man avslå og ikke noe annet.
invitation-authorized-title = Du har godtatt
invitation-authorized-text = { $reseller } kan nå opprette betalinger for { $business }. Vil du trekke det tilbake, tar du kontakt med den som driver tjenesten.
invitation-declined-title = Denne invitasjonen ble avslått
invitation-declined-text = { $reseller } kan ikke gjøre noe for deg på grunnlag av den.
invitation-expired-title = Denne invitasjonen er utløpt
invitation-expired-text = Den kunne besvares i 30 dager. Vil du fortsatt godta, kan du be { $reseller } om en ny.
invitation-revoked-title = Dette er trukket tilbake
invitation-revoked-text = { $reseller } kan ikke lenger opprette betalinger for deg.
invitation-error-missing = Skriv inn samtykkekoden din.
invitation-error-wrong = Koden er feil, brukt eller ikke lenger gyldig. Etter fem feil forsøk trenger du en ny.
invitation-notice-decide = Trykk på «Godta» eller «Avslå».

## Leverandører

provider-unnamed = betalingsleverandøren
