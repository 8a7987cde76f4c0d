;; Works for ever without growing or calling anything.
(loop $again (br $again))
unreachable
