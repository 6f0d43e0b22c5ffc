#ifndef FUNNEL_VERSION_H
#define FUNNEL_VERSION_H

/* The only place that names the version of the release that these sources are, or will become.
 * The server takes a number, where 10203 means 1.2.3; people read the text. */
#define FUNNEL_VERSION "0.1.0"
#define FUNNEL_VERSION_NUMBER 100

/* build.sh defines FUNNEL_RELEASE if the commit has the tag of the version. Any other build has
 * -dev in its text, which comes before the release in Semantic Versioning, and the number 0. */
#ifdef FUNNEL_RELEASE
#define FUNNEL_BUILD FUNNEL_VERSION
#define FUNNEL_BUILD_NUMBER FUNNEL_VERSION_NUMBER
#else
#define FUNNEL_BUILD FUNNEL_VERSION "-dev"
#define FUNNEL_BUILD_NUMBER 0
#endif

/* build.sh stamps the commit; a plain `go build` does not know it. */
#ifndef FUNNEL_COMMIT
#define FUNNEL_COMMIT "unknown commit"
#endif

#endif
