// The pages of the explorer, in the order of the navigation. To add one, add it to this list.

import { askPage } from "./ask-page.js";
import { calibrationPage } from "./calibration-page.js";
import { comparePage } from "./compare-page.js";
import { entityPage } from "./entity-page.js";
import { forecastPage } from "./forecast-page.js";
import { historyPage } from "./history-page.js";
import { missingPage } from "./missing-page.js";
import { periodPage } from "./period-page.js";
import { surprisingPage } from "./surprising-page.js";
import { whatIfPage } from "./what-if-page.js";

/**
 * A page has
 * - `name`, the member `page` of the view, and `label`, its link in the navigation;
 * - `start(view)`, the members of another page's view that it begins with, besides the runs;
 * - `title(view)`, what it asks, in words, and `timed`, whether it needs a time;
 * - `mount(app)`, which builds it once and returns `{ elements, target, show(view), hide() }`: what to put on the page
 *   while it is open, the id of its results, how to show a view, and what to do when another page opens, if anything.
 * formPage in form-page.js makes one with a form and a panel of results.
 */
export const PAGES = [
  askPage,
  periodPage,
  entityPage,
  whatIfPage,
  missingPage,
  surprisingPage,
  forecastPage,
  comparePage,
  calibrationPage,
  historyPage,
];

export const pageOf = (view) => PAGES.find(({ name }) => name === view.page) ?? PAGES[0];
