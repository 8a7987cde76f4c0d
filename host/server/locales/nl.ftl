# Wat betalers lezen, in het Nederlands.

## Rond elke pagina

test-banner = TEST
test-banner-text = Dit is een testbetaling. Er gaat geen echt geld om.
footer-reassurance = Kaart- en bankgegevens vult u alleen bij de betaalprovider in. Deze pagina krijgt ze nooit.
footer-brand = Betaalpagina van Kassette
opens-new-tab = (opent in een nieuw tabblad)
language-menu = Taal
summary-pay = U betaalt aan { $merchant }
summary-paid = U hebt betaald aan { $merchant }
summary-about = Betaling aan { $merchant }
summary-order = Bestelling
support = Vragen over uw bestelling?

## Kiezen

choose-title = { $amount } betalen aan { $merchant }
choose-heading = Hoe wilt u betalen?
choose-heading-again = Hoe wilt u nu betalen?
choose-hint = Met uw keuze wordt nog niets afgeschreven. U rondt de betaling af in de volgende stappen.
choose-with = Doorgaan met { $method }
choose-declined = Uw laatste poging is geweigerd.
choose-down = Ongeveer een minuut niet beschikbaar, omdat { $provider } niet antwoordt.
choose-via = via { $provider }
choose-more = Meer over { $provider }
changed-title = Kijk alstublieft nog een keer
changed-text = { $method } zou nu via { $provider } lopen, onder de voorwaarden hieronder. Ga verder als u akkoord gaat.
changed-continue = Doorgaan met { $provider }
changed-other = Alle betaalmethoden bekijken

## Naar de provider

going-title = We brengen u naar { $provider } …
going-text = Daar betaalt u { $amount } en daarna komt u hier terug.
go-text-stuck = Gebruik de knop als er niets gebeurt.
go-link = Verder naar { $provider }
open-title = Uw betaling staat klaar
open-text = U koos { $method } met { $provider }. Ga daar verder om te betalen.
post-title = Verder naar { $provider }
post-text = Uw betaling staat klaar. De knop brengt u naar { $provider }, waar u bevestigt.
another-way = Een andere betaalmethode kiezen
another-way-hint = We sluiten eerst de betaling bij { $provider }, zodat u nooit dubbel betaalt.
lapsed-title = Dit duurde iets te lang
lapsed-text = De tijd om met { $provider } te betalen is voorbij. Hebt u al betaald, betaal dan niet nog een keer: deze pagina toont uw betaling zodra die is gemeld.

## Vragen

questions-title = Enkele gegevens voor { $provider }
questions-text = { $provider } heeft dit nodig om uw betaling aan te nemen. We geven het alleen voor deze betaling door.
questions-submit = Doorgaan
question-optional = optioneel
question-choose = Maak een keuze
question-email = E-mailadres
question-phone = Telefoonnummer
question-given-name = Voornaam
question-family-name = Achternaam
error-summary = Controleer de gemarkeerde antwoorden.
error-required = Vul dit veld in.
error-email = Vul een e-mailadres in, bijvoorbeeld naam@example.org.
error-phone = Vul een telefoonnummer met landnummer in, bijvoorbeeld +31 20 123 4567.
error-length = Gebruik hoogstens { $most } tekens.
error-choice = Kies een van de mogelijkheden.
error-characters = Gebruik alleen letters, cijfers en gewone leestekens.
error-card = Vul hier geen kaartnummer in.

## Instructies

show-title = Betalen met { $method }
show-details = Betaalgegevens
show-details-hint = Klik of tik op een waarde om die helemaal te selecteren.
copy = Kopiëren
show-qr = QR-code voor uw bank- of wallet-app; hij bevat de betaalgegevens van deze pagina
show-link = App openen
show-page = Betaalpagina openen
show-left = Resterende tijd om te betalen: { $time }
show-paid = Ik heb betaald – nu controleren

## Hoe een betaling ervoor staat

completed-title = Betaling voltooid
completed-text = Dank u wel. U hebt { $amount } aan { $merchant } betaald.
completed-test = Dit was een test. Er is bij niemand iets afgeschreven.
receipt-date = Datum
receipt-method = Betaalmethode
receipt-by = { $method }, met { $provider }
receipt-reference = Referentie
receipt-payee = Betaald aan
receipt-paid = Betaald bedrag
receipt-refunded = Terugbetaald op { $day }
receipt-rest = Betaald na terugbetalingen
receipt-keep = Druk deze pagina af of sla haar op als pdf om een kopie te bewaren. De pagina bevestigt de betaling en is geen factuur.
completed-part-returned = Daarvan is { $amount } terugbetaald.
completed-disputed = Deze betaling wordt betwist bij de betaaldienst.
second-received = Voor deze bestelling is nog een betaling ontvangen. Vraag { $merchant } ernaar.
second-part-given-back = Voor deze bestelling is nog een betaling ontvangen; een deel daarvan is terugbetaald. Vraag { $merchant } naar de rest.
second-given-back = Voor deze bestelling is nog een betaling ontvangen; die is terugbetaald.
accepted-text = { $merchant } heeft deze betaling als betaald aanvaard.
returned-title = Uw geld is terugbetaald
returned-text = U had { $amount } aan { $merchant } betaald; dat is terugbetaald.
money-received = Er is wel geld voor ontvangen. Betaal alstublieft niet nog een keer en vraag het { $merchant }.
money-part-given-back = Er is wel geld voor ontvangen en een deel is terugbetaald. Betaal alstublieft niet nog een keer en vraag { $merchant } naar de rest.
money-given-back = Het geld dat ervoor was ontvangen, is terugbetaald. Wilt u nog betalen, begin dan opnieuw bij { $merchant }.
money-unclear = Het is niet zeker of er geld is afgeschreven. Betaal alstublieft niet nog een keer en vraag het { $merchant }.
processing-title = Uw betaling wordt verwerkt
processing-text = Dat duurt meestal maar even. U hoeft niets te doen.
verification-title = Wachten op de definitieve bevestiging
verification-text = Uw betaling is binnen en wordt bevestigd. Dat kan even duren. U kunt deze pagina sluiten; { $merchant } krijgt bericht.
verification-awaited = We wachten tot { $provider } uw betaling bevestigt. Betaal alstublieft niet nog een keer. U kunt deze pagina sluiten; { $merchant } krijgt bericht.
review-title = Uw betaling wordt gecontroleerd
review-text = Iemand kijkt ernaar voordat ze doorgaat. Betaal alstublieft niet nog een keer. { $merchant } krijgt bericht van de uitkomst.
review-part-given-back = Een deel van het ontvangen geld is terugbetaald.
review-given-back = Het ontvangen geld is terugbetaald.
failed-title = Deze betaling is niet gelukt
failed-text = Er is niets afgeschreven. Begin voor een nieuwe poging een nieuwe betaling bij { $merchant }.
cancelled-title = Deze betaling is geannuleerd
cancelled-text = Er is niets afgeschreven. Wilt u nog betalen, begin dan opnieuw bij { $merchant }.
expired-title = Deze betaling is verlopen
expired-text = Er is niet op tijd betaald en er is niets afgeschreven. Wilt u nog betalen, begin dan opnieuw bij { $merchant }.
expired-late = Hebt u zojuist nog betaald, betaal dan niet nog een keer en vraag het { $merchant }. Een betaling die nog binnenkomt, wordt nagekeken.
checking-title = Een ogenblik geduld
checking-text = { $provider } heeft nog niet geantwoord. We zoeken dat uit voordat er iets anders gebeurt, zodat u nooit dubbel betaalt.
checking-retry = Opnieuw navragen
waiting-title = Wachten op { $provider }
waiting-text = Zodra { $provider } uw betaling bevestigt, ziet u het hier. Nog niet klaar? U kunt verdergaan.
waiting-declined = De laatste poging met { $provider } is geweigerd. U kunt het daar opnieuw proberen. Een andere manier kan worden gekozen zodra { $provider } meldt dat de poging voorbij is.
declined-title = De betaling is geweigerd
ended-title = U hebt nog niet betaald
ended-text = De betaling met { $provider } is beëindigd en er is niets afgeschreven.
try-again = U kunt het opnieuw proberen of een andere betaalmethode kiezen.
pay-in-shop = Wilt u nog betalen, begin dan opnieuw bij { $merchant }.
choose-again = Betaalmethode kiezen
see-current = Betaling bekijken
direct-title = Ga verder in de winkel
direct-text = Deze betaling wordt door { $merchant } gestart. Ga terug naar de winkel en kies daar voor betalen.
unavailable-title = Betalen is nu niet mogelijk
unavailable-text = Voor dit bedrag is op dit moment geen betaalmethode beschikbaar. Probeer het later opnieuw of vraag het { $merchant }.
back-to-merchant = Terug naar de winkel
back-soon = Over enkele seconden keert u vanzelf terug naar { $merchant }.
stay = Op deze pagina blijven
close-page = U kunt deze pagina nu sluiten.
updates-itself = Deze pagina werkt zichzelf bij.
updates-pause = Pauzeren
updates-paused = Bijwerken is gepauzeerd.
check-again = Opnieuw controleren

## Meldingen na een keuze

notice-still-open = De betaling bij { $provider } kon niet met zekerheid worden gesloten. Ga ermee verder of probeer het straks opnieuw, zodat u nooit dubbel betaalt.
notice-not-available = Die betaalmethode is niet meer beschikbaar.
choose-another = Kies een andere.
not-taken = Voor deze poging is niets afgeschreven.
one-try-left = Er is nog één poging: kies een betaalmethode die waarschijnlijk werkt.
declined-funds = De betaling is geweigerd: er was niet genoeg saldo.
advice-funds = Gebruik een andere kaart of betaalmethode, of vraag uw bank naar uw saldo en limiet.
declined-expired = De betaling is geweigerd: de kaart is verlopen.
advice-expired = Gebruik een andere kaart of controleer de ingevoerde datum.
declined-authentication = Uw bank kon niet bevestigen dat u het bent.
advice-authentication = Probeer het opnieuw en bevestig in de app van uw bank, of kies een andere betaalmethode.
declined-limit = De betaling is geweigerd: het bedrag is hoger dan een limiet.
advice-limit = Vraag uw bank om de limiet te verhogen, of kies een andere betaalmethode.
declined-bank = De betaling is zonder opgave van reden geweigerd.
advice-bank = Misschien kan uw bank de reden noemen. Gebruik een andere kaart of kies een andere betaalmethode.
declined-cancelled = U hebt de betaling geannuleerd.
declined-provider = { $provider } heeft de betaling niet aangenomen.
down-title = { $provider } antwoordt op dit moment niet.
down-text = Uw betaling is daar niet gestart en er is niets afgeschreven.
advice-down = Kies een andere betaalmethode, of controleer het over een minuut opnieuw.
notice-forbidden = Betalingen aan { $merchant } kunnen op dit moment niet worden gestart.
notice-conflict = Dat kan niet meer. Zo staat uw betaling er nu voor.
notice-unsettled = De provider heeft nog niet geantwoord. Wacht een ogenblik.
notice-choose = Kies een van de betaalmethoden.

## Als er iets niet klopt

not-found-title = We kennen deze betaallink niet
not-found-text = Controleer of het adres volledig is, of ga terug naar de winkel en begin daar opnieuw.
foreign-title = Gebruik de knoppen van onze pagina
foreign-text = Dit verzoek kwam niet van onze betaalpagina, daarom is er niets gebeurd. Open uw betaallink opnieuw en ga daar verder.
too-large-title = Dat was te veel tekst
too-large-text = Er is niets gebeurd. Ga terug en maak uw invoer korter.
unreadable-title = Dat konden we niet lezen
unreadable-text = Er is niets gebeurd. Ga terug en probeer het opnieuw.
failure-title = Er ging bij ons iets mis
failure-text = Wacht een ogenblik en open uw betaallink opnieuw. Begin intussen geen tweede betaling.
too-many-requests = Te veel verzoeken vanuit uw netwerk. Wacht een ogenblik en open uw betaallink opnieuw.
busy = Er wordt op dit moment door veel mensen betaald. Wacht een ogenblik en open uw betaallink opnieuw.
open-payment = Betaling openen

## Uitnodigingen van wederverkopers

open-invitation = De uitnodiging openen
no-invitation-title = Wij kennen deze uitnodiging niet
no-invitation-text = Controleer of het adres volledig is, of vraag het aan de afzender.
invitation-foreign-text = Dit verzoek kwam niet van onze pagina, dus er is niets gedaan. Open de uitnodiging opnieuw en ga van daaruit verder.
invitation-title = { $reseller } wil graag betalingen voor u ontvangen
invitation-text = Als u akkoord gaat, kan { $reseller } betalingen voor { $business } aanmaken en uw klanten laten betalen.
invitation-yours = De betalingen en het geld zijn van u: uw eigen instellingen en grenzen gelden, en u hoort van elke betaling. U kunt dit altijd intrekken.
invitation-code = Toestemmingscode
invitation-code-hint = U krijgt hem van de beheerder van deze dienst, niet van wie u uitnodigt. Hij begint met km_, is 24 uur geldig en werkt één keer. Geef hem aan niemand door.
invitation-accept = Akkoord
invitation-decline = Afwijzen
invitation-until = U kunt antwoorden tot { $date } (UTC).
invitation-footer = Akkoord gaan kan alleen met uw toestemmingscode. Met alleen dit adres kan men afwijzen en verder niets.
invitation-authorized-title = U bent akkoord gegaan
invitation-authorized-text = { $reseller } kan nu betalingen voor { $business } aanmaken. Wilt u dit intrekken, neem dan contact op met de beheerder van deze dienst.
invitation-declined-title = Deze uitnodiging is afgewezen
invitation-declined-text = { $reseller } kan op grond hiervan niets voor u doen.
invitation-expired-title = Deze uitnodiging is verlopen
invitation-expired-text = U kon 30 dagen lang antwoorden. Wilt u nog akkoord gaan, vraag { $reseller } dan om een nieuwe.
invitation-revoked-title = Dit is ingetrokken
invitation-revoked-text = { $reseller } kan geen betalingen meer voor u aanmaken.
invitation-error-missing = Vul uw toestemmingscode in.
invitation-error-wrong = Deze code is onjuist, gebruikt of niet meer geldig. Na vijf foute pogingen hebt u een nieuwe nodig.
invitation-notice-decide = Kies ‘Akkoord’ of ‘Afwijzen’.

## Providers

provider-unnamed = de betaalprovider
