"use strict";
// A frontier whose points are figures alone: nothing but them changes with the choice.
(() => {
  if (!chooser) return;
  report.show = () => {};
  chooser.choose(chooser.start);
})();
