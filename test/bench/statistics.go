package bench

import (
	"math"
	"slices"
)

// median is the middle value, or NaN of none.
func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile is the value below which a share of the values lies, interpolated
// between neighbours; NaN of none.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	place := share * float64(len(sorted)-1)
	below := int(place)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (sorted[above]-sorted[below])*(place-float64(below))
}

// A Spread is what many rounds came to: the median, and the quartiles, between
// which half of the rounds lie.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"lower_quartile"`
	High   float64 `json:"upper_quartile"`
}

func spreadOf(values []float64) Spread {
	return Spread{median(values), quantile(values, 0.25), quantile(values, 0.75)}
}
