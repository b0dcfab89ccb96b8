import { createViewer } from "@playcanvas/supersplat-viewer/viewer";
import { defaultPostEffectSettings } from "@playcanvas/supersplat-viewer/settings";
window.createSplatViewer = createViewer;
window.defaultPostEffects = defaultPostEffectSettings;
