// What Prometheus makes of scrapes, with its own parser, engine of PromQL and templates of alerts.
//
// Reads from its input {"scrapes": [...], "questions": [...]} and prints for each question the
// series that answer it. A question with `for` is an alert: it is asked every minute of that time,
// as Prometheus evaluates a rule, and only the series that were there each time answer it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"sort"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// A scrape is what one target said at one time, in seconds. Its labels are those of the target; a
// series that has such a label keeps its own.
type scrape struct {
	At     float64           `json:"at"`
	Labels map[string]string `json:"labels"`
	Text   string            `json:"text"`
}

type question struct {
	Expr  string            `json:"expr"`
	At    float64           `json:"at"`
	For   string            `json:"for"`
	Texts map[string]string `json:"texts"`
}

type answer struct {
	Labels map[string]string `json:"labels"`
	// As text, because JSON has no NaN and no infinity.
	Value string            `json:"value"`
	Texts map[string]string `json:"texts"`
}

type asked struct {
	Scrapes   []scrape   `json:"scrapes"`
	Questions []question `json:"questions"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var from asked
	if err := json.NewDecoder(os.Stdin).Decode(&from); err != nil {
		return err
	}
	sort.SliceStable(from.Scrapes, func(i, j int) bool { return from.Scrapes[i].At < from.Scrapes[j].At })
	kept := &memory{series: map[string]*series{}}
	for _, each := range from.Scrapes {
		if err := kept.add(each); err != nil {
			return err
		}
	}
	answers := [][]answer{}
	for _, each := range from.Questions {
		found, err := kept.answer(each)
		if err != nil {
			return fmt.Errorf("%s: %w", each.Expr, err)
		}
		answers = append(answers, found)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

// memory holds all series; it is the storage that the engine asks.
type memory struct {
	series map[string]*series
}

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func (kept *memory) add(from scrape) error {
	lines := textparse.NewPromParser([]byte(from.Text), labels.NewSymbolTable(), false)
	for {
		entry, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var own labels.Labels
		lines.Labels(&own)
		all := labels.NewBuilder(own)
		for name, value := range from.Labels {
			if own.Get(name) == "" {
				all.Set(name, value)
			}
		}
		_, _, value := lines.Series()
		kept.append(all.Labels(), point{milliseconds(from.At), value})
	}
}

func (kept *memory) append(of labels.Labels, next point) {
	key := of.String()
	if kept.series[key] == nil {
		kept.series[key] = &series{labels: of}
	}
	kept.series[key].samples = append(kept.series[key].samples, next)
}

// answer returns the series for which an expression has had a value for long enough.
func (kept *memory) answer(asked question) ([]answer, error) {
	found, err := kept.evaluate(asked.Expr, asked.At)
	if err != nil {
		return nil, err
	}
	wanted := model.Duration(0)
	if asked.For != "" {
		if wanted, err = model.ParseDuration(asked.For); err != nil {
			return nil, err
		}
	}
	for before := time.Minute; before <= time.Duration(wanted); before += time.Minute {
		earlier, err := kept.evaluate(asked.Expr, asked.At-before.Seconds())
		if err != nil {
			return nil, err
		}
		there := map[string]bool{}
		for _, each := range earlier {
			there[each.Metric.String()] = true
		}
		still := promql.Vector{}
		for _, each := range found {
			if there[each.Metric.String()] {
				still = append(still, each)
			}
		}
		found = still
	}
	answers := []answer{}
	for _, each := range found {
		texts, err := expand(asked, each)
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer{each.Metric.Map(), fmt.Sprint(each.F), texts})
	}
	return answers, nil
}

func (kept *memory) evaluate(expression string, at float64) (promql.Vector, error) {
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000,
		Timeout:    time.Minute,
		Parser:     parser.NewParser(parser.Options{}),
	})
	defer engine.Close()
	when := time.UnixMilli(milliseconds(at))
	query, err := engine.NewInstantQuery(context.Background(), kept, nil, expression, when)
	if err != nil {
		return nil, err
	}
	defer query.Close()
	result := query.Exec(context.Background())
	if result.Err != nil {
		return nil, result.Err
	}
	vector, err := result.Vector()
	if err != nil {
		return nil, err
	}
	// What the engine returns is its own until the query is closed.
	return append(promql.Vector{}, vector...), nil
}

// expand fills the templates of an alert as Prometheus does.
func expand(asked question, about promql.Sample) (map[string]string, error) {
	texts := map[string]string{}
	for name, text := range asked.Texts {
		given := "{{$labels := .Labels}}{{$value := .Value}}" + text
		data := template.AlertTemplateData(about.Metric.Map(), nil, "", about)
		none := func(context.Context, string, time.Time) (promql.Vector, error) {
			return nil, errors.New("a text of an alert asks nothing")
		}
		expander := template.NewTemplateExpander(
			context.Background(), given, name, data, model.Time(milliseconds(asked.At)), none,
			&url.URL{}, nil,
		)
		expanded, err := expander.Expand()
		if err != nil {
			return nil, err
		}
		texts[name] = expanded
	}
	return texts, nil
}

func (kept *memory) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, wanted ...*labels.Matcher) storage.SeriesSet {
			return kept.choose(wanted)
		},
	}, nil
}

func (kept *memory) choose(wanted []*labels.Matcher) storage.SeriesSet {
	chosen := []storage.Series{}
	for _, each := range kept.series {
		if fits(each.labels, wanted) {
			chosen = append(chosen, storage.NewListSeries(each.labels, each.samples))
		}
	}
	sort.Slice(chosen, func(i, j int) bool {
		return labels.Compare(chosen[i].Labels(), chosen[j].Labels()) < 0
	})
	return &list{series: chosen, now: -1}
}

func fits(has labels.Labels, wanted []*labels.Matcher) bool {
	for _, matcher := range wanted {
		if !matcher.Matches(has.Get(matcher.Name)) {
			return false
		}
	}
	return true
}

type list struct {
	series []storage.Series
	now    int
}

func (l *list) Next() bool                        { l.now++; return l.now < len(l.series) }
func (l *list) At() storage.Series                { return l.series[l.now] }
func (l *list) Err() error                        { return nil }
func (l *list) Warnings() annotations.Annotations { return nil }

// A point is one sample: a time in milliseconds, and a number.
type point struct {
	at    int64
	value float64
}

func (p point) T() int64                      { return p.at }
func (p point) ST() int64                     { return 0 }
func (p point) F() float64                    { return p.value }
func (p point) H() *histogram.Histogram       { return nil }
func (p point) FH() *histogram.FloatHistogram { return nil }
func (p point) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (p point) Copy() chunks.Sample           { return p }

func milliseconds(seconds float64) int64 { return int64(math.Round(seconds * 1000)) }
