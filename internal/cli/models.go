package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/catalog"
	"github.com/holdfast-dev/holdfast/llm/offline"
	"github.com/holdfast-dev/holdfast/session"
)

func (p *program) modelsCommand() *cobra.Command {
	return group("models", "list models and check that they answer", p.modelsListCommand(), p.modelsCheckCommand())
}

// modelOffer is what models there are.
type modelOffer struct {
	Date      string           `json:"date"` // of the prices
	Providers []catalog.Status `json:"providers"`
	Models    []offeredModel   `json:"models"`
}

type offeredModel struct {
	Name    string         `json:"name"`
	Context int            `json:"context"` // tokens; 0: not known
	Output  int            `json:"output"`
	Price   *catalog.Price `json:"price"` // of a million tokens; null: not known
}

func (p *program) modelsListCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "list providers, what they need, and models that are known", Args: cobra.NoArgs,
		Long: `List providers of models, whether they are set up and by which variable, and the models
whose lengths and prices are known. A provider may have others: any name of the form
provider/model can be used. No provider is called; "models check" does that.

Prices are in US dollars for a million tokens.`,
		RunE: func(*cobra.Command, []string) error {
			c, err := p.catalog()
			if err != nil {
				return err
			}
			return p.printOffer(offerOf(c, all || p.json))
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "also list models of providers that are not set up")
	return cmd
}

// offerOf collects what a catalog has, with the models of all providers or of
// those that are ready.
func offerOf(c *catalog.Catalog, all bool) modelOffer {
	o := modelOffer{Date: c.Date().Format(time.DateOnly), Providers: c.Providers()}
	o.Models = []offeredModel{{Name: offline.Name, Price: &catalog.Price{}}}
	for _, provider := range o.Providers {
		if !all && !provider.Ready() {
			continue
		}
		for _, name := range provider.Known {
			card, _ := c.Card(name)
			o.Models = append(o.Models, offeredModel{Name: name, Context: card.Context, Output: card.Output, Price: card.Price})
		}
	}
	return o
}

func (p *program) printOffer(o modelOffer) error {
	if p.json {
		return p.printJSON(o)
	}
	providers := table{head: []string{"PROVIDER", "STATUS", "ADDRESS"}, flex: 2}
	for _, provider := range o.Providers {
		status := cell{"ready", green}
		switch {
		case !provider.Ready():
			status = cell{"set " + provider.Missing, yellow}
		case provider.KeyEnv != "":
			status.text += ", by " + provider.KeyEnv
		default:
			status.text += ", needs no key"
		}
		providers.add(cell{provider.Name, bold}, status, cell{oneLine(provider.URL), dim})
	}
	known := table{head: []string{"MODEL", "CONTEXT", "INPUT", "OUTPUT"}, flex: 0}
	for _, m := range o.Models {
		known.add(cell{m.Name, bold}, cell{lengthText(m.Context), plain}, cell{priceText(m.Price, false), plain}, cell{priceText(m.Price, true), plain})
	}
	if err := p.out.print(providers.layout(p.out) + "\n" + known.layout(p.out)); err != nil {
		return err
	}
	p.err.status("dollars for a million tokens, as of %s", o.Date)
	return nil
}

// lengthText returns a number of tokens, in words where it is not known.
func lengthText(tokens int) string {
	if tokens == 0 {
		return "–"
	}
	return strconv.Itoa(tokens)
}

func priceText(of *catalog.Price, output bool) string {
	switch {
	case of == nil:
		return "–"
	case output:
		return of.Output.String()
	}
	return of.Input.String()
}

func (p *program) modelsCheckCommand() *cobra.Command {
	var patience time.Duration
	cmd := &cobra.Command{
		Use: "check [NAME]", Short: "ask a provider or a model whether it answers", Args: cobra.MaximumNArgs(1),
		Long: `Ask whether models can be reached. NAME is a provider, which is asked for its list of
models at no cost, or provider/model, which is asked for a word and may cost a fraction of
a cent. Without NAME every provider that is set up is asked. With --json: an array
of what was found.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if patience <= 0 {
				return &session.InvalidError{Field: "timeout", Reason: "is not longer than 0"}
			}
			ctx, stop := p.interrupts.watch(cmd.Context())
			defer stop()
			c, err := p.catalog()
			if err != nil {
				return err
			}
			return p.checkModels(ctx, c, args, patience)
		},
	}
	cmd.Flags().DurationVar(&patience, "timeout", 20*time.Second, "how long to wait for each, a `TIME` such as 20s")
	return cmd
}

// checkModels asks each, also after one that fails; the first failure is the
// command's.
func (p *program) checkModels(ctx context.Context, c *catalog.Catalog, names []string, patience time.Duration) error {
	if len(names) == 0 {
		names = p.usableProviders(c)
	}
	if len(names) == 0 {
		return &unavailableError{what: "no provider of models is set up", remedy: `see what each needs: holdfast models list`}
	}
	found, first := []catalog.Health{}, error(nil)
	for _, name := range names {
		h, err := p.checkModel(ctx, c, name, patience)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && first == nil:
			first = err
		case err != nil:
			p.report(err)
		case p.json:
			found = append(found, h)
		default:
			err = p.out.print(healthText(name, h))
		}
		if errors.Is(err, errReaderGone) {
			return err
		}
	}
	if p.json {
		if err := p.printJSON(found); err != nil {
			return err
		}
	}
	return first
}

// usableProviders returns the providers that somebody has set up: those that are ready, but
// of a server that is only looked for in its usual place not even that.
func (p *program) usableProviders(c *catalog.Catalog) []string {
	var names []string
	for _, provider := range c.Providers() {
		if provider.Ready() && (provider.Name != "ollama" || p.getenv("OLLAMA_HOST") != "") {
			names = append(names, provider.Name)
		}
	}
	return names
}

func (p *program) checkModel(ctx context.Context, c *catalog.Catalog, name string, patience time.Duration) (catalog.Health, error) {
	if name == offline.Name {
		return catalog.Health{Provider: "offline", Model: name}, nil
	}
	if p.offline {
		return catalog.Health{}, &unavailableError{what: fmt.Sprintf("%q runs on a server, and --offline refuses it", name), remedy: "run without --offline"}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h, err := c.Check(ctx, name)
	if err == nil {
		return h, nil
	}
	var unknown *session.NotFoundError
	switch {
	case errors.As(err, &unknown):
		return h, &unavailableError{what: err.Error(), remedy: "see: holdfast models list"}
	case errors.Is(err, session.ErrUnsupported):
		return h, err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return h, &modelError{fmt.Errorf("%s did not answer within %s", name, patience)}
	case refusedKey(err):
		return h, &modelError{fmt.Errorf("%s: %w", keyOf(c, name), err)}
	}
	return h, &modelError{err}
}

// modelError is a model, or the way to it, that failed.
type modelError struct{ err error }

func (e *modelError) Error() string   { return e.err.Error() }
func (e *modelError) Unwrap() []error { return []error{errModel, e.err} }

func refusedKey(err error) bool {
	var told *llm.ProviderError
	return errors.As(err, &told) && (told.Status == http.StatusUnauthorized || told.Status == http.StatusForbidden)
}

// keyOf says where a refused key came from.
func keyOf(c *catalog.Catalog, name string) string {
	provider, _, _ := strings.Cut(name, "/")
	for _, s := range c.Providers() {
		if s.Name == provider && s.KeyEnv != "" {
			return "the key in " + s.KeyEnv + " was refused"
		}
	}
	return "the request was refused for want of a key"
}

func healthText(name string, h catalog.Health) string {
	text := fmt.Sprintf("%s: ok", oneLine(name))
	if h.Model == "" {
		text += " · " + countOf(len(h.Models), "model")
	} else if used := h.Usage.Total(); used > 0 {
		text += " · " + countOf(int(used), "token")
	}
	if h.Cost > 0 {
		text += " · $" + h.Cost.String()
	}
	return text + " · " + durationText(h.Took) + "\n"
}
