// Swagger UI over the server's own description, with the token that the console of this tab has.

import { fromAddress, keep, token } from "../../../console/api.js";

const form = document.getElementById("ask");
const server = new URL("../../..", import.meta.url);

/** Every request of the page to this server has the token of this tab. */
function withToken(request) {
  if (new URL(request.url, location.href).origin === location.origin) {
    request.headers.Authorization = `Bearer ${token()}`;
  }
  return request;
}

async function show() {
  const request = withToken({ url: new URL("../openapi.json", import.meta.url).href, headers: {} });
  const answer = await fetch(request.url, { headers: request.headers, credentials: "omit" });
  const found = await answer.json();
  if (!answer.ok) {
    document.getElementById("said").textContent = token() ? found.error_msg : "";
    keep("");
    form.hidden = false;
    document.getElementById("token").focus();
    return;
  }
  form.hidden = true;
  SwaggerUIBundle({
    // Swagger UI asks where the description says; behind a proxy that is below the proxy's path.
    spec: { ...found, servers: [{ url: server.href.replace(/\/$/, "") }] },
    dom_id: "#api",
    deepLinking: true,
    showExtensions: true,
    validatorUrl: null,
    requestInterceptor: withToken,
  });
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  keep(document.getElementById("token").value.trim());
  show();
});

addEventListener("DOMContentLoaded", () => {
  fromAddress();
  show();
});
