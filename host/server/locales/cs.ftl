# Co čtou plátci, česky.

## Na každé stránce

test-banner = TEST
test-banner-text = Toto je zkušební platba. Žádné skutečné peníze se nepřesouvají.
footer-reassurance = Údaje o kartě a bankovním účtu zadáváte jen u poskytovatele plateb. Na tuto stránku se nikdy nedostanou.
footer-brand = Platební stránka Kassette
opens-new-tab = (otevře se na nové kartě)
language-menu = Jazyk
summary-pay = Platíte obchodníkovi { $merchant }
summary-paid = Zaplatili jste obchodníkovi { $merchant }
summary-about = Platba obchodníkovi { $merchant }
summary-order = Objednávka
support = Máte dotazy k objednávce?

## Výběr

choose-title = Zaplatit { $amount } obchodníkovi { $merchant }
choose-heading = Jak chcete zaplatit?
choose-heading-again = Jak chcete zaplatit nyní?
choose-hint = Samotným výběrem se nic neplatí. Platbu dokončíte v dalších krocích.
choose-with = Pokračovat: { $method }
choose-declined = Váš poslední pokus byl zamítnut.
choose-down = Asi na minutu není v nabídce, protože { $provider } neodpovídá.
choose-via = přes { $provider }
choose-more = Více informací: { $provider }
changed-title = Podívejte se prosím ještě jednou
changed-text = { $method }: platba by nyní proběhla přes { $provider } za níže uvedených podmínek. Pokud souhlasíte, pokračujte.
changed-continue = Pokračovat přes { $provider }
changed-other = Zobrazit všechny způsoby platby

## K poskytovateli

going-title = Přesměrování: { $provider } …
going-text = Tam zaplatíte { $amount } a potom se vrátíte sem.
go-text-stuck = Pokud se nic nestane, použijte tlačítko.
go-link = Pokračovat na stránku { $provider }
open-title = Vaše platba čeká
open-text = Vybrali jste { $method } přes { $provider }. Pokračujte tam a zaplaťte.
post-title = Přechod na stránku { $provider }
post-text = Vaše platba je připravená. Tlačítko vás přenese na stránku { $provider }, kde ji potvrdíte.
another-way = Vybrat jiný způsob platby
another-way-hint = Nejprve uzavřeme platbu u { $provider }, abyste nikdy nezaplatili dvakrát.
lapsed-title = Trvalo to trochu příliš dlouho
lapsed-text = Čas na zaplacení přes { $provider } vypršel. Pokud jste již zaplatili, neplaťte znovu: tato stránka vaši platbu zobrazí, jakmile o ní dostaneme zprávu.

## Otázky

questions-title = Několik údajů pro { $provider }
questions-text = Tyto údaje jsou potřeba, aby vaše platba přes { $provider } mohla proběhnout. Předáváme je jen pro tuto platbu.
questions-submit = Pokračovat
question-optional = nepovinné
question-choose = Vyberte
question-email = E-mailová adresa
question-phone = Telefonní číslo
question-given-name = Jméno
question-family-name = Příjmení
error-summary = Zkontrolujte prosím označené odpovědi.
error-required = Vyplňte prosím toto pole.
error-email = Zadejte prosím e-mailovou adresu, například jmeno@example.org.
error-phone = Zadejte prosím telefonní číslo s předvolbou země, například +420 222 123 456.
error-length = Použijte prosím nejvýše { $most } znaků.
error-choice = Vyberte prosím jednu z možností.
error-characters = Použijte prosím jen písmena, číslice a běžnou interpunkci.
error-card = Sem prosím nezadávejte číslo karty.

## Pokyny

show-title = Zaplatit: { $method }
show-details = Platební údaje
show-details-hint = Kliknutím nebo klepnutím na hodnotu ji celou označíte.
copy = Kopírovat
show-qr = QR kód pro bankovní aplikaci nebo peněženku; obsahuje platební údaje z této stránky
show-link = Otevřít aplikaci
show-page = Otevřít platební stránku
show-left = Zbývající čas na zaplacení: { $time }
show-paid = Zaplaceno – zkontrolovat nyní

## Stav platby

completed-title = Platba je dokončena
completed-text = Děkujeme. Zaplatili jste { $amount } obchodníkovi { $merchant }.
completed-test = Toto byla zkouška. Nikomu nebylo nic účtováno.
receipt-date = Datum
receipt-method = Způsob platby
receipt-by = { $method }, přes { $provider }
receipt-reference = Reference
receipt-payee = Zaplaceno komu
receipt-paid = Zaplacená částka
receipt-refunded = Vráceno { $day }
receipt-rest = Zaplaceno po vrácení
receipt-keep = Stránku si můžete vytisknout nebo uložit jako PDF. Potvrzuje platbu a není fakturou.
completed-part-returned = Z toho bylo vráceno { $amount }.
completed-disputed = Tato platba je u poskytovatele plateb reklamována.
second-received = Za tuto objednávku byla přijata ještě další platba. Obraťte se prosím na obchodníka { $merchant }.
second-part-given-back = Za tuto objednávku byla přijata ještě další platba a její část byla vrácena. Ohledně zbytku se prosím obraťte na obchodníka { $merchant }.
second-given-back = Za tuto objednávku byla přijata ještě další platba a ta byla vrácena.
accepted-text = { $merchant } uznává tuto platbu jako zaplacenou.
returned-title = Vaše peníze byly vráceny
returned-text = Zaplatili jste { $amount } obchodníkovi { $merchant } a tato částka byla vrácena.
money-received = Byly však za ni přijaty peníze. Neplaťte prosím znovu a obraťte se na obchodníka { $merchant }.
money-part-given-back = Byly však za ni přijaty peníze a část z nich byla vrácena. Neplaťte prosím znovu a ohledně zbytku se obraťte na obchodníka { $merchant }.
money-given-back = Peníze, které za ni byly přijaty, byly vráceny. Pokud chcete stále zaplatit, začněte prosím znovu u obchodníka { $merchant }.
money-unclear = Není jisté, zda byly strženy peníze. Neplaťte prosím znovu a obraťte se na obchodníka { $merchant }.
processing-title = Vaše platba se zpracovává
processing-text = Obvykle to trvá jen chvíli. Nemusíte nic dělat.
verification-title = Čekáme na konečné potvrzení
verification-text = Vaše platba dorazila a potvrzuje se. Může to chvíli trvat. Tuto stránku můžete zavřít; { $merchant } dostane zprávu.
verification-awaited = Čekáme na potvrzení vaší platby od { $provider }. Neplaťte prosím znovu. Tuto stránku můžete zavřít; { $merchant } dostane zprávu.
review-title = Vaše platba se kontroluje
review-text = Než bude provedena, někdo ji zkontroluje. Neplaťte prosím znovu. { $merchant } se dozví výsledek.
review-part-given-back = Část přijatých peněz byla vrácena.
review-given-back = Přijaté peníze byly vráceny.
failed-title = Tato platba se neuskutečnila
failed-text = Žádné peníze nebyly strženy. Chcete-li to zkusit znovu, začněte prosím novou platbu u obchodníka { $merchant }.
cancelled-title = Tato platba byla zrušena
cancelled-text = Žádné peníze nebyly strženy. Pokud chcete stále zaplatit, začněte prosím znovu u obchodníka { $merchant }.
expired-title = Platnost této platby vypršela
expired-text = Nebyla zaplacena včas a žádné peníze nebyly strženy. Pokud chcete stále zaplatit, začněte prosím znovu u obchodníka { $merchant }.
expired-late = Pokud jste zaplatili těsně předtím, neplaťte znovu a obraťte se na obchodníka { $merchant }. Platba, která ještě dorazí, bude prověřena.
checking-title = Okamžik prosím
checking-text = Od { $provider } ještě nemáme odpověď. Ověříme to dřív, než se stane cokoli jiného, abyste nikdy nezaplatili dvakrát.
checking-retry = Zeptat se znovu
waiting-title = Čekáme na potvrzení od { $provider }
waiting-text = Jakmile od { $provider } dostaneme potvrzení vaší platby, uvidíte ho zde. Ještě nemáte hotovo? Můžete pokračovat.
waiting-declined = Poslední pokus přes { $provider } byl zamítnut. Můžete to tam zkusit znovu. Jiný způsob platby lze zvolit, jakmile { $provider } oznámí, že je pokus u konce.
declined-title = Platba byla odmítnuta
ended-title = Ještě jste nezaplatili
ended-text = Platba přes { $provider } skončila a žádné peníze nebyly strženy.
try-again = Můžete to zkusit znovu nebo vybrat jiný způsob.
pay-in-shop = Pokud chcete stále zaplatit, začněte prosím znovu u obchodníka { $merchant }.
choose-again = Vybrat způsob platby
see-current = Zobrazit platbu
direct-title = Pokračujte prosím v obchodě
direct-text = Tuto platbu zahajuje { $merchant }. Vraťte se do obchodu a zvolte platbu tam.
unavailable-title = Platit teď není možné
unavailable-text = Pro tuto částku není momentálně k dispozici žádný způsob platby. Zkuste to prosím později nebo se obraťte na obchodníka { $merchant }.
back-to-merchant = Zpět do obchodu
back-soon = Za několik sekund se automaticky vrátíte k obchodníkovi { $merchant }.
stay = Zůstat na této stránce
close-page = Tuto stránku teď můžete zavřít.
updates-itself = Tato stránka se sama aktualizuje.
updates-pause = Pozastavit
updates-paused = Aktualizace je pozastavena.
check-again = Zkontrolovat znovu

## Zprávy po výběru

notice-still-open = Platbu u { $provider } se nepodařilo s jistotou uzavřít. Abyste nikdy nezaplatili dvakrát, dokončete ji prosím, nebo to za chvíli zkuste znovu.
notice-not-available = Tento způsob platby již není k dispozici.
choose-another = Vyberte prosím jiný.
not-taken = Za tento pokus nebyly strženy žádné peníze.
one-try-left = Zbývá jeden pokus: vyberte způsob platby, který pravděpodobně bude fungovat.
declined-funds = Platba byla zamítnuta: na účtu nebylo dost peněz.
advice-funds = Použijte jinou kartu nebo jiný způsob platby, nebo se banky zeptejte na zůstatek a limit.
declined-expired = Platba byla zamítnuta: platnost karty skončila.
advice-expired = Použijte jinou kartu, nebo zkontrolujte zadané datum.
declined-authentication = Banka nemohla potvrdit, že jste to vy.
advice-authentication = Zkuste to znovu a platbu potvrďte v aplikaci banky, nebo vyberte jiný způsob.
declined-limit = Platba byla zamítnuta: částka překračuje limit.
advice-limit = Požádejte banku o zvýšení limitu, nebo vyberte jiný způsob platby.
declined-bank = Platba byla zamítnuta bez uvedení důvodu.
advice-bank = Důvod vám možná sdělí banka. Použijte jinou kartu, nebo vyberte jiný způsob platby.
declined-cancelled = Platbu jste zrušili.
declined-provider = Platba přes { $provider } nebyla přijata.
down-title = { $provider } právě neodpovídá.
down-text = Vaše platba tam nebyla zahájena a žádné peníze nebyly strženy.
advice-down = Vyberte jiný způsob, nebo to za minutu zkontrolujte znovu.
notice-forbidden = Platby obchodníkovi { $merchant } momentálně nelze zahájit.
notice-conflict = To už není možné. Toto je aktuální stav vaší platby.
notice-unsettled = Poskytovatel ještě neodpověděl. Počkejte prosím okamžik.
notice-choose = Vyberte prosím jeden ze způsobů platby.

## Když něco není v pořádku

not-found-title = Tento platební odkaz neznáme
not-found-text = Zkontrolujte prosím, zda je adresa úplná, nebo se vraťte do obchodu a začněte tam znovu.
foreign-title = Použijte prosím tlačítka na naší stránce
foreign-text = Tento požadavek nepřišel z naší platební stránky, takže se nic nestalo. Otevřete znovu svůj platební odkaz a pokračujte odtud.
too-large-title = To bylo příliš mnoho textu
too-large-text = Nic se nestalo. Vraťte se prosím a zadaný text zkraťte.
unreadable-title = To se nám nepodařilo přečíst
unreadable-text = Nic se nestalo. Vraťte se prosím a zkuste to znovu.
failure-title = Na naší straně se něco pokazilo
failure-text = Počkejte prosím chvíli a znovu otevřete svůj platební odkaz. Mezitím nezačínejte druhou platbu.
too-many-requests = Příliš mnoho požadavků z vaší sítě. Počkejte prosím okamžik a znovu otevřete svůj platební odkaz.
busy = Právě teď platí mnoho lidí. Počkejte prosím okamžik a znovu otevřete svůj platební odkaz.
open-payment = Otevřít platbu

## Pozvánky od přeprodejců

open-invitation = Otevřít pozvánku
no-invitation-title = Tuto pozvánku neznáme
no-invitation-text = Zkontrolujte prosím, zda je adresa úplná, nebo se zeptejte odesílatele.
invitation-foreign-text = Tento požadavek nepřišel z naší stránky, takže se nic nestalo. Otevřete pozvánku znovu a pokračujte odtud.
invitation-title = { $reseller } chce přijímat platby za vás
invitation-text = Pokud souhlasíte, { $reseller } bude moci vytvářet platby pro { $business } a posílat vaše zákazníky platit.
invitation-yours = Platby i peníze jsou vaše: platí vaše vlastní nastavení a limity a o každé platbě se dozvíte. Souhlas můžete kdykoli odvolat.
invitation-code = Kód souhlasu
invitation-code-hint = Dostanete ho od provozovatele této služby, ne od toho, kdo vás zve. Začíná na km_, platí 24 hodin a lze ho použít jednou. Nikomu ho nepředávejte.
invitation-accept = Souhlasím
invitation-decline = Odmítnout
invitation-until = Odpovědět můžete do { $date } (UTC).
invitation-footer = K souhlasu je potřeba váš kód souhlasu. Se samotnou touto adresou lze pozvánku jen odmítnout.
invitation-authorized-title = Vyjádřili jste souhlas
invitation-authorized-text = { $reseller } teď může vytvářet platby pro { $business }. Chcete-li to odvolat, obraťte se na provozovatele této služby.
invitation-declined-title = Tato pozvánka byla odmítnuta
invitation-declined-text = { $reseller } na jejím základě za vás nemůže nic udělat.
invitation-expired-title = Platnost této pozvánky vypršela
invitation-expired-text = Odpovědět na ni bylo možné 30 dní. Pokud chcete stále souhlasit, požádejte o novou: { $reseller }.
invitation-revoked-title = Souhlas byl odvolán
invitation-revoked-text = { $reseller } už za vás nemůže vytvářet platby.
invitation-error-missing = Zadejte prosím svůj kód souhlasu.
invitation-error-wrong = Tento kód je chybný, použitý nebo již neplatí. Po pěti chybných pokusech potřebujete nový.
invitation-notice-decide = Stiskněte prosím „Souhlasím“ nebo „Odmítnout“.

## Poskytovatelé

provider-unnamed = poskytovatele plateb
