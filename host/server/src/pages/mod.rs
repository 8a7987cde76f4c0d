//! What payers see: the hosted checkout and the return page.
