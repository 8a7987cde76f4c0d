# Det, som betalere læser, på dansk.

## Omkring hver side

test-banner = TEST
test-banner-text = Dette er en testbetaling. Der flyttes ingen rigtige penge.
footer-reassurance = Kort- og bankoplysninger indtaster du kun hos betalingsudbyderen. De når aldrig denne side.
footer-brand = Betalingsside fra Kassette
opens-new-tab = (åbner i en ny fane)
language-menu = Sprog
summary-pay = Du betaler til { $merchant }
summary-paid = Du har betalt til { $merchant }
summary-about = Betaling til { $merchant }
summary-order = Bestilling
support = Spørgsmål om din bestilling?

## Valget

choose-title = Betal { $amount } til { $merchant }
choose-heading = Hvordan vil du betale?
choose-heading-again = Hvordan vil du betale nu?
choose-hint = Du betaler ikke noget ved at vælge. Du gennemfører betalingen i de næste trin.
choose-with = Fortsæt med { $method }
choose-declined = Dit seneste forsøg blev afvist.
choose-down = Tilbydes ikke i omkring et minut, fordi { $provider } ikke svarer.
choose-via = via { $provider }
choose-more = Mere om { $provider }
changed-title = Se venligst efter en gang til
changed-text = { $method } ville nu gå via { $provider } på vilkårene herunder. Fortsæt, hvis du er indforstået.
changed-continue = Fortsæt med { $provider }
changed-other = Se alle betalingsmåder

## Videre til udbyderen

going-title = Vi sender dig til { $provider } …
going-text = Der betaler du { $amount }, og derefter kommer du tilbage hertil.
go-text-stuck = Brug knappen, hvis der ikke sker noget.
go-link = Fortsæt til { $provider }
open-title = Din betaling venter
open-text = Du har valgt { $method } med { $provider }. Fortsæt der for at betale.
post-title = Videre til { $provider }
post-text = Din betaling er klargjort. Knappen fører dig til { $provider }, hvor du bekræfter den.
another-way = Vælg en anden betalingsmåde
another-way-hint = Vi lukker først betalingen hos { $provider }, så du aldrig betaler to gange.
lapsed-title = Det tog lidt for lang tid
lapsed-text = Tiden til at betale med { $provider } er udløbet. Har du allerede betalt, så betal ikke igen: Denne side viser din betaling, så snart den er meldt.

## Spørgsmål

questions-title = Nogle oplysninger til { $provider }
questions-text = { $provider } skal bruge dette for at modtage din betaling. Vi giver det kun videre til denne betaling.
questions-submit = Fortsæt
question-optional = valgfrit
question-choose = Vælg
question-email = E-mailadresse
question-phone = Telefonnummer
question-given-name = Fornavn
question-family-name = Efternavn
error-summary = Kontrollér de markerede svar.
error-required = Udfyld dette felt.
error-email = Indtast en e-mailadresse, for eksempel navn@example.org.
error-phone = Indtast et telefonnummer med landekode, for eksempel +45 32 12 34 56.
error-length = Brug højst { $most } tegn.
error-choice = Vælg en af mulighederne.
error-characters = Brug kun bogstaver, tal og almindelige tegn.
error-card = Indtast ikke et kortnummer her.

## Vejledning

show-title = Betal med { $method }
show-details = Betalingsoplysninger
show-details-hint = Klik eller tryk på en værdi for at markere den hele.
copy = Kopiér
show-qr = QR-kode til din bank- eller wallet-app; den indeholder betalingsoplysningerne på denne side
show-link = Åbn appen
show-page = Åbn betalingssiden
show-left = Tid tilbage til at betale: { $time }
show-paid = Jeg har betalt – tjek nu

## Hvor en betaling står

completed-title = Betalingen er gennemført
completed-text = Tak. Du har betalt { $amount } til { $merchant }.
completed-test = Dette var en test. Ingen er blevet opkrævet noget.
receipt-date = Dato
receipt-method = Betalingsmåde
receipt-by = { $method }, med { $provider }
receipt-reference = Reference
receipt-payee = Betalt til
receipt-paid = Betalt beløb
receipt-refunded = Betalt tilbage { $day }
receipt-rest = Betalt efter tilbagebetalinger
receipt-keep = Udskriv siden, eller gem den som PDF. Den bekræfter betalingen og er ikke en faktura.
completed-part-returned = Heraf er { $amount } betalt tilbage.
completed-disputed = Der er gjort indsigelse mod denne betaling hos betalingsudbyderen.
second-received = Der er også modtaget en anden betaling for denne ordre. Spørg { $merchant } om den.
second-part-given-back = Der er også modtaget en anden betaling for denne ordre, og en del af den er betalt tilbage. Spørg { $merchant } om resten.
second-given-back = Der er også modtaget en anden betaling for denne ordre, og den er betalt tilbage.
accepted-text = { $merchant } har godtaget denne betaling som betalt.
returned-title = Dine penge er betalt tilbage
returned-text = Du havde betalt { $amount } til { $merchant }, og beløbet er betalt tilbage.
money-received = Men der er modtaget penge for den. Betal ikke igen, men spørg { $merchant }.
money-part-given-back = Men der er modtaget penge for den, og en del er betalt tilbage. Betal ikke igen, men spørg { $merchant } om resten.
money-given-back = De penge, der var modtaget for den, er betalt tilbage. Vil du stadig betale, så begynd forfra hos { $merchant }.
money-unclear = Det er ikke sikkert, om der er trukket penge. Betal ikke igen, men spørg { $merchant }.
processing-title = Din betaling behandles
processing-text = Det tager som regel kun et øjeblik. Du behøver ikke gøre noget.
verification-title = Venter på den endelige bekræftelse
verification-text = Din betaling er modtaget og er ved at blive bekræftet. Det kan tage lidt tid. Du kan lukke denne side; { $merchant } får besked.
verification-awaited = Vi venter på, at { $provider } bekræfter din betaling. Betal ikke igen. Du kan lukke denne side; { $merchant } får besked.
review-title = Din betaling bliver kontrolleret
review-text = En medarbejder ser på den, før den gennemføres. Betal ikke igen. { $merchant } får resultatet at vide.
review-part-given-back = En del af de modtagne penge er betalt tilbage.
review-given-back = De modtagne penge er betalt tilbage.
failed-title = Betalingen blev ikke gennemført
failed-text = Der er ikke trukket penge. Vil du prøve igen, så begynd en ny betaling hos { $merchant }.
cancelled-title = Betalingen blev annulleret
cancelled-text = Der er ikke trukket penge. Vil du stadig betale, så begynd forfra hos { $merchant }.
expired-title = Betalingen er udløbet
expired-text = Den blev ikke betalt i tide, og der er ikke trukket penge. Vil du stadig betale, så begynd forfra hos { $merchant }.
expired-late = Har du betalt lige inden, så betal ikke igen, men spørg { $merchant }. En betaling, der alligevel kommer frem, bliver kontrolleret.
checking-title = Et øjeblik
checking-text = { $provider } har ikke svaret endnu. Det finder vi ud af, før der sker andet, så du aldrig betaler to gange.
checking-retry = Spørg igen
waiting-title = Venter på { $provider }
waiting-text = Så snart { $provider } bekræfter din betaling, ser du det her. Ikke færdig endnu? Du kan fortsætte.
waiting-declined = Det seneste forsøg med { $provider } blev afvist. Du kan prøve igen der. En anden betalingsmåde kan vælges, når { $provider } melder, at forsøget er slut.
declined-title = Betalingen blev afvist
ended-title = Du har ikke betalt endnu
ended-text = Betalingen med { $provider } er afsluttet, og der er ikke trukket penge.
try-again = Du kan prøve igen eller vælge en anden måde.
pay-in-shop = Vil du stadig betale, så begynd forfra hos { $merchant }.
choose-again = Vælg betalingsmåde
see-current = Se betalingen
direct-title = Fortsæt i butikken
direct-text = Det er { $merchant }, der starter denne betaling. Gå tilbage til butikken og vælg at betale der.
unavailable-title = Det er ikke muligt at betale lige nu
unavailable-text = Der er i øjeblikket ingen betalingsmåde til dette beløb. Prøv igen senere, eller spørg { $merchant }.
back-to-merchant = Tilbage til butikken
back-soon = Om få sekunder kommer du automatisk tilbage til { $merchant }.
stay = Bliv på denne side
close-page = Du kan lukke denne side nu.
updates-itself = Denne side opdaterer sig selv.
updates-pause = Sæt på pause
updates-paused = Opdateringen er sat på pause.
check-again = Tjek igen

## Beskeder efter et valg

notice-still-open = Betalingen hos { $provider } kunne ikke lukkes med sikkerhed. Fortsæt med den, eller prøv igen om lidt, så du aldrig betaler to gange.
notice-not-available = Den betalingsmåde er ikke længere tilgængelig.
choose-another = Vælg en anden.
not-taken = Der er ikke trukket penge for dette forsøg.
one-try-left = Der er ét forsøg tilbage: Vælg en betalingsmåde, der sandsynligvis virker.
declined-funds = Betalingen blev afvist: Der var ikke penge nok.
advice-funds = Brug et andet kort eller en anden betalingsmåde, eller spørg din bank om saldo og grænse.
declined-expired = Betalingen blev afvist: Kortet er udløbet.
advice-expired = Brug et andet kort, eller kontrollér den dato, du indtastede.
declined-authentication = Din bank kunne ikke bekræfte, at det er dig.
advice-authentication = Prøv igen og bekræft i din banks app, eller vælg en anden betalingsmåde.
declined-limit = Betalingen blev afvist: Beløbet er over en grænse.
advice-limit = Bed din bank om at hæve grænsen, eller vælg en anden betalingsmåde.
declined-bank = Betalingen blev afvist, uden at der blev givet en grund.
advice-bank = Din bank kan måske fortælle hvorfor. Brug et andet kort, eller vælg en anden betalingsmåde.
declined-cancelled = Du annullerede betalingen.
declined-provider = { $provider } tog ikke imod betalingen.
down-title = { $provider } svarer ikke lige nu.
down-text = Din betaling blev ikke startet der, og der er ikke trukket penge.
advice-down = Vælg en anden måde, eller tjek igen om et minut.
notice-forbidden = Betalinger til { $merchant } kan ikke startes i øjeblikket.
notice-conflict = Det er ikke længere muligt. Sådan står din betaling nu.
notice-unsettled = Udbyderen har ikke svaret endnu. Vent et øjeblik.
notice-choose = Vælg en af betalingsmåderne.

## Når noget er galt

not-found-title = Vi kender ikke dette betalingslink
not-found-text = Kontrollér, at adressen er fuldstændig, eller gå tilbage til butikken og begynd forfra der.
foreign-title = Brug knapperne på vores side
foreign-text = Denne anmodning kom ikke fra vores betalingsside, så der er ikke sket noget. Åbn dit betalingslink igen og fortsæt derfra.
too-large-title = Det var for meget tekst
too-large-text = Der er ikke sket noget. Gå tilbage og gør det indtastede kortere.
unreadable-title = Det kunne vi ikke læse
unreadable-text = Der er ikke sket noget. Gå tilbage og prøv igen.
failure-title = Noget gik galt hos os
failure-text = Vent et øjeblik, og åbn dit betalingslink igen. Begynd ikke en ny betaling imens.
too-many-requests = For mange anmodninger fra dit netværk. Vent et øjeblik, og åbn dit betalingslink igen.
busy = Der er mange, der betaler lige nu. Vent et øjeblik, og åbn dit betalingslink igen.
open-payment = Åbn betalingen

## Invitationer fra forhandlere

open-invitation = Åbn invitationen
no-invitation-title = Vi kender ikke denne invitation
no-invitation-text = Kontrollér, at adressen er fuldstændig, eller spørg afsenderen.
invitation-foreign-text = Denne anmodning kom ikke fra vores side, så der er ikke sket noget. Åbn invitationen igen og fortsæt derfra.
invitation-title = { $reseller } vil gerne modtage betalinger for dig
invitation-text = Hvis du accepterer, kan { $reseller } oprette betalinger for { $business } og sende dine kunder til betaling.
invitation-yours = Betalingerne og pengene er dine: Dine egne indstillinger og grænser gælder, og du får besked om hver betaling. Du kan trække din accept tilbage når som helst.
invitation-code = Samtykkekode
invitation-code-hint = Du får den af tjenestens operatør, ikke af den, der inviterer. Den begynder med km_, gælder i 24 timer og virker én gang. Giv den ikke videre til nogen.
invitation-accept = Acceptér
invitation-decline = Afvis
invitation-until = Du kan svare til og med { $date } (UTC).
invitation-footer = For at acceptere skal du bruge din samtykkekode. Med denne adresse alene kan man kun afvise.
invitation-authorized-title = Du har accepteret
invitation-authorized-text = { $reseller } kan nu oprette betalinger for { $business }. Henvend dig til tjenestens operatør for at trække det tilbage.
invitation-declined-title = Denne invitation blev afvist
invitation-declined-text = { $reseller } kan ikke gøre noget for dig på grundlag af den.
invitation-expired-title = Denne invitation er udløbet
invitation-expired-text = Den kunne besvares i 30 dage. Vil du stadig acceptere, så bed { $reseller } om en ny.
invitation-revoked-title = Accepten er trukket tilbage
invitation-revoked-text = { $reseller } kan ikke længere oprette betalinger for dig.
invitation-error-missing = Indtast din samtykkekode.
invitation-error-wrong = Koden er forkert, brugt eller ikke længere gyldig. Efter fem forkerte forsøg skal du have en ny.
invitation-notice-decide = Tryk på »Acceptér« eller »Afvis«.

## Udbydere

provider-unnamed = betalingsudbyderen
