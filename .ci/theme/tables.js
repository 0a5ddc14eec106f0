"use strict";
// Material lets wide tables scroll; the keyboard reaches what can have the focus.
document$.subscribe(() => {
  for (const frame of document.querySelectorAll(".md-typeset__scrollwrap")) frame.tabIndex = 0;
});
