package server_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/apikey"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/inmem"
)

// The sessions of a program over HTTP: the server is an http.Handler, and a client
// has the verbs of the runtime.
func Example() {
	ctx := context.Background()
	st := inmem.New(inmem.Config{})
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"demo": scripted.New(scripted.Reply{Text: "Yes, it rains."})}})
	if err != nil {
		log.Fatal(err)
	}
	keys := apikey.New(rt, time.Now)
	_, secret, err := keys.Create(ctx, apikey.Key{Label: "my page", Tenant: "acme", Scopes: []apikey.Scope{apikey.Read, apikey.Write}}, "me")
	if err != nil {
		log.Fatal(err)
	}
	api, err := server.New(server.Config{Runtime: rt, Keys: keys})
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(api) // yours is http.ListenAndServe(address, api)

	c, err := client.New(client.Config{URL: web.URL, Key: secret})
	if err != nil {
		log.Fatal(err)
	}
	s, err := c.Create(ctx, session.Definition{Name: "guide", Model: "demo"})
	if err != nil {
		log.Fatal(err)
	}
	s, err = c.Execute(ctx, s.ID(), holdfast.SendMessage{Text: "Do I need a coat?"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Reply(), s.Tenant())

	api.Close()
	web.Close()
	if err := errors.Join(rt.Close(), st.Close()); err != nil {
		log.Fatal(err)
	}
	// Output: Yes, it rains. acme
}
