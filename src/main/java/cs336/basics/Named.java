package cs336.basics;

import java.util.ServiceLoader;
import java.util.function.Function;
import java.util.stream.Collectors;

/** Finds a service by the name it gives itself. */
final class Named {
    private Named() {}

    static <S> S find(String what, String name, Class<S> service, Function<S, String> nameOf) {
        // Not the thread's class loader: in a notebook that one does not see this jar's services.
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
