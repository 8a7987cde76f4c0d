// What a browser with scripts does better: it follows the payment without reloading the page, copies values, and writes
// times in the payer's zone. Every page works without it.
'use strict';
(() => {
  const { status, version, next } = document.body.dataset;

  // Asks for the version of the payment's state, more rarely the longer it stays the same.
  const opened = Date.now();
  const pause = () => {
    const minutes = (Date.now() - opened) / 60_000;
    return minutes < 2 ? 4_000 : minutes < 15 ? 15_000 : 60_000;
  };
  const follow = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch(status, { cache: 'no-store' });
        if (answer.ok && (await answer.json()).version !== version) {
          location.replace(next);
          return;
        }
      } catch {
        // No connection at the moment: it is asked again.
      }
    }
    setTimeout(follow, pause());
  };
  if (status) {
    setTimeout(follow, pause());
  }

  for (const button of document.querySelectorAll('.copying button')) {
    button.hidden = !navigator.clipboard;
    button.addEventListener('click', () => {
      const value = button.parentElement.querySelector('.copy');
      navigator.clipboard.writeText(value.textContent).then(() => {
        button.dataset.done = '';
        setTimeout(() => delete button.dataset.done, 2_000);
      });
    });
  }

  const written = { year: 'numeric', month: 'long', day: 'numeric', hour: 'numeric', minute: '2-digit', timeZoneName: 'short' };
  for (const time of document.querySelectorAll('time[data-zone]')) {
    time.textContent = new Intl.DateTimeFormat(document.documentElement.lang, written).format(new Date(time.dateTime));
  }
})();
