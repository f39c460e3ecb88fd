package cs336.basics;

import java.util.ServiceLoader;
import java.util.function.Function;
import java.util.stream.Collectors;

/** A lookup of services by name. */
final class Named {
    private Named() {}

    /**
     * Returns the service of this name.
     *
     * @param what the kind of service, for the error message
     * @throws IllegalArgumentException if there is none; the message lists the known names
     */
    static <S> S find(String what, String name, Class<S> service, Function<S, String> nameOf) {
        // In a notebook the thread's class loader does not find the services of this jar.
        ServiceLoader<S> known = ServiceLoader.load(service, Named.class.getClassLoader());
        for (S candidate : known) {
            if (nameOf.apply(candidate).equals(name)) {
                return candidate;
            }
        }
        String names = known.stream().map(p -> nameOf.apply(p.get())).sorted().collect(Collectors.joining(", "));
        throw new IllegalArgumentException(what + " '" + name + "' is unknown; known: " + names);
    }
}
